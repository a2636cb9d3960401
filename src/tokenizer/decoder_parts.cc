#include "tokenizer/decoder_parts.h"

#include <fmt/format.h>

#include <utility>

#include "tokenizer/byte_fallback.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/text_pattern.h"
#include "unicode/utf8.h"

namespace unspool {
namespace {

using Tokens = std::vector<std::string>;
using LoadedPart = Result<std::unique_ptr<const DecoderPart>>;

void join(Tokens& tokens) {
  std::string all;
  for (const std::string& token : tokens) all.append(token);
  tokens.clear();
  tokens.push_back(std::move(all));
}

class FusePart final : public DecoderPart {
 public:
  void apply(Tokens& tokens, bool /*as_bytes*/) const override { join(tokens); }
};

class ByteLevelPart final : public DecoderPart {
 public:
  void apply(Tokens& tokens, bool as_bytes) const override {
    for (std::string& token : tokens) {
      if (!unicode::is_valid(token)) continue;  // bytes of a step before
      if (auto bytes = from_byte_level(token)) token = *std::move(bytes);
    }
    join(tokens);
    if (!as_bytes) tokens.front() = unicode::to_valid(tokens.front());
  }
};

// Runs of byte tokens become their text. Of a run that is not UTF-8 every byte becomes U+FFFD, those of whole
// characters too.
class ByteFallbackPart final : public DecoderPart {
 public:
  void apply(Tokens& tokens, bool as_bytes) const override {
    Tokens out;
    std::string run;
    const auto end_run = [&] {
      if (run.empty()) return;
      if (!as_bytes && !unicode::is_valid(run)) {
        std::string replaced;
        for (size_t i = 0; i < run.size(); ++i) unicode::append(replaced, unicode::kReplacement);
        run = std::move(replaced);
      }
      out.push_back(std::move(run));
      run.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = fallback_byte(token)) {
        run.push_back(static_cast<char>(*byte));
        continue;
      }
      end_run();
      out.push_back(std::move(token));
    }
    end_run();
    tokens = std::move(out);
  }
};

class MetaspacePart final : public DecoderPart {
 public:
  explicit MetaspacePart(const Metaspace& options) : options_(options) {
    unicode::append(replacement_, options.replacement);
  }
  // The first token loses all its spaces, not only the one in front: so does the reference.
  void apply(Tokens& tokens, bool /*as_bytes*/) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool first = i == 0 && options_.prepend != Metaspace::Prepend::kNever;
      replace_all(tokens[i], first ? "" : " ");
    }
  }

 private:
  void replace_all(std::string& token, std::string_view with) const {
    std::string replaced;
    size_t at = 0;
    for (size_t found = token.find(replacement_); found != std::string::npos; found = token.find(replacement_, at)) {
      replaced.append(token, at, found - at).append(with);
      at = found + replacement_.size();
    }
    if (at == 0) return;
    token = replaced.append(token, at);
  }

  Metaspace options_;
  std::string replacement_;
};

class ReplacePart final : public DecoderPart {
 public:
  ReplacePart(std::unique_ptr<const unicode::Pattern> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void apply(Tokens& tokens, bool /*as_bytes*/) const override {
    std::vector<unicode::Span> spans;
    for (std::string& token : tokens) {
      if (!unicode::is_valid(token)) continue;  // bytes that are no character; a pattern sees text only
      spans.clear();
      pattern_->find_matches(token, spans);
      std::string replaced;
      for (const unicode::Span& span : spans) {
        replaced.append(span.is_match ? content_ : token.substr(span.begin, span.end - span.begin));
      }
      token = std::move(replaced);
    }
  }

 private:
  std::unique_ptr<const unicode::Pattern> pattern_;
  std::string content_;
};

// Takes up to so many of a character from the start and the end of every token.
class StripPart final : public DecoderPart {
 public:
  StripPart(char32_t content, int64_t start, int64_t stop) : start_(start), stop_(stop) {
    unicode::append(content_, content);
  }

  void apply(Tokens& tokens, bool /*as_bytes*/) const override {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start_ && rest.starts_with(content_); ++i) rest.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && rest.ends_with(content_); ++i) rest.remove_suffix(content_.size());
      token = std::string(rest);
    }
  }

 private:
  std::string content_;
  int64_t start_;
  int64_t stop_;
};

LoadedPart load_replace(const JsonValue& json) {
  UNSPOOL_ASSIGN(auto pattern, load_pattern("decoder Replace", json["pattern"]));
  UNSPOOL_ASSIGN(std::string content, inserted_field("decoder Replace", json, "content"));
  return std::unique_ptr<const DecoderPart>(std::make_unique<ReplacePart>(std::move(pattern), std::move(content)));
}

LoadedPart load_strip(const JsonValue& json) {
  UNSPOOL_ASSIGN(const char32_t content, character_field("decoder Strip", json, "content"));
  UNSPOOL_ASSIGN(const int32_t start, id_field("decoder Strip", json, "start"));
  UNSPOOL_ASSIGN(const int32_t stop, id_field("decoder Strip", json, "stop"));
  return std::unique_ptr<const DecoderPart>(std::make_unique<StripPart>(content, start, stop));
}

}  // namespace

LoadedPart load_decoder_part(const std::string& type, const JsonValue& json) {
  std::unique_ptr<const DecoderPart> part;
  if (type == "Fuse") {
    part = std::make_unique<FusePart>();
  } else if (type == "ByteLevel") {
    part = std::make_unique<ByteLevelPart>();
  } else if (type == "ByteFallback") {
    part = std::make_unique<ByteFallbackPart>();
  } else if (type == "Metaspace") {
    UNSPOOL_ASSIGN(const Metaspace options, Metaspace::load("decoder Metaspace", json));
    part = std::make_unique<MetaspacePart>(options);
  } else if (type == "Replace") {
    return load_replace(json);
  } else if (type == "Strip") {
    return load_strip(json);
  } else {
    return tokenizer_error("decoder", fmt::format("type {} is not supported (ByteFallback, ByteLevel, Fuse, Metaspace, "
                                                  "Replace, Strip and Sequence are)",
                                                  type));
  }
  return part;
}

}  // namespace unspool
