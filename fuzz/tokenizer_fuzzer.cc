// Bytes as a tokenizer.json (where they begin with '{'), and as text through tokenizers of the common families: ids lie
// in the vocabulary, decode gives valid UTF-8, byte-level text comes back whole, and streamed text equals decoded text.
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/incremental_detokenizer.h"
#include "tokenizer/tokenizer.h"
#include "unicode/utf8.h"

namespace {

using unspool::Tokenizer;

// All single bytes, some merges, an added token for every flag; `pre_tokenizer` and `normalizer` are JSON.
std::shared_ptr<const Tokenizer> byte_tokenizer(const std::string& pre_tokenizer, const std::string& normalizer) {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    std::string piece;
    unspool::append_byte_level(piece, std::string(1, static_cast<char>(byte)));
    if (piece == "\"" || piece == "\\") piece.insert(0, "\\");
    vocab += "\"" + piece + "\":" + std::to_string(byte) + ",";
  }
  vocab += R"("aa":256,"aaaa":257,"th":258,"the":259,"Ġthe":260,"ĠĠ":261)";
  const std::string split = R"({"type":"Sequence","pretokenizers":[)" + pre_tokenizer +
                            R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":)" +
                            (pre_tokenizer.empty() ? "true" : "false") + "}]}";
  const std::string json =
      R"({"model":{"type":"BPE","vocab":{)" + vocab +
      R"(},"merges":["a a","aa aa","t h","th e","Ġ the","Ġ Ġ"]},"decoder":{"type":"ByteLevel"},"pre_tokenizer":)" +
      split + R"(,"normalizer":)" + normalizer +
      R"(,"added_tokens":[{"id":262,"content":"<|e|>","single_word":false,)"
      R"("lstrip":false,"rstrip":false,"normalized":false,"special":true}]})";
  return Tokenizer::from_json(json).value();
}

// All byte tokens, a few pieces, and an added token, as BPE or Unigram; the parts are JSON.
std::shared_ptr<const Tokenizer> sentencepiece_tokenizer(bool unigram, const std::string& normalizer,
                                                         const std::string& pre_tokenizer) {
  std::vector<std::string> pieces = {"<unk>", "▁", "a", "aa", "th", "▁the", "▁▁", "é", "日本"};
  for (int byte = 0; byte < 256; ++byte) pieces.push_back(fmt::format("<0x{:02X}>", byte));
  std::string vocab;
  for (size_t id = 0; id < pieces.size(); ++id) {
    if (id > 0) vocab += ",";
    vocab += unigram ? fmt::format(R"(["{}",-{}])", pieces[id], id % 7) : fmt::format(R"("{}":{})", pieces[id], id);
  }
  const std::string model = unigram ? R"({"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[)" + vocab + "]}"
                                    : R"({"type":"BPE","unk_token":"<unk>","byte_fallback":true,"vocab":{)" + vocab +
                                          R"(},"merges":[["a","a"],["▁","▁"]]})";
  const std::string json =
      R"({"model":)" + model + R"(,"normalizer":)" + normalizer + R"(,"pre_tokenizer":)" + pre_tokenizer +
      R"(,"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
      R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},"added_tokens":)"
      R"([{"id":0,"content":"<s>","single_word":false,"lstrip":true,"rstrip":true,"normalized":true,"special":true}]})";
  return Tokenizer::from_json(json).value();
}

std::vector<std::shared_ptr<const Tokenizer>> make_sentencepiece_tokenizers() {
  const std::string prepend = R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
                              R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]})";
  const std::string clean = R"({"type":"Sequence","normalizers":[{"type":"Nmt"},{"type":"NFKC"},)"
                            R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,)"
                            R"("strip_accents":null,"lowercase":true},{"type":"Strip","strip_left":true,"strip_right":)"
                            R"(false},{"type":"Replace","pattern":{"Regex":" {2,}"},"content":" "}]})";
  const std::string spaces = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false})";
  const std::string words = R"({"type":"Sequence","pretokenizers":[{"type":"Punctuation"},{"type":"UnicodeScripts"},)"
                            R"({"type":"WhitespaceSplit"},{"type":"Digits","individual_digits":true},)" +
                            spaces + "]}";
  return {sentencepiece_tokenizer(false, prepend, "null"), sentencepiece_tokenizer(false, "null", spaces),
          sentencepiece_tokenizer(true, "null", spaces), sentencepiece_tokenizer(true, clean, words)};
}

std::vector<std::shared_ptr<const Tokenizer>> make_tokenizers() {
  const auto split = [](const std::string& digits) {
    return R"({"type":"Split","behavior":"Isolated","invert":false,"pattern":{"Regex":"(?i:'s|'t|'re|'ve|'m|'ll|'d)|)"
           R"([^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N})" +
           digits + R"(| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},)";
  };
  return {byte_tokenizer("", "null"), byte_tokenizer(split("{1,3}"), "null"), byte_tokenizer(split(""), "null"),
          byte_tokenizer(split(""), R"({"type":"NFC"})")};
}

void check_streaming(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids, bool equal) {
  unspool::IncrementalDetokenizer stream(tokenizer, {}, false, true);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  UNSPOOL_CHECK(unspool::unicode::is_valid(text));
  const std::string decoded = tokenizer->decode(ids, false);
  // Elsewhere bytes that make no character change what has gone out.
  if (!tokenizer->joins_bytes() && (!equal || decoded.find("\ufffd") != std::string::npos)) return;
  UNSPOOL_CHECK(text == decoded || text + "\ufffd" == decoded);
}

void check_text(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view bytes, bool comes_back,
                bool streams_as_a_whole = true) {
  const std::vector<int32_t> ids = tokenizer->encode(bytes, true);
  for (const int32_t id : ids) UNSPOOL_CHECK(id >= 0 && id < tokenizer->vocab_size());
  const std::string decoded = tokenizer->decode(ids, false);
  UNSPOOL_CHECK(unspool::unicode::is_valid(decoded));
  UNSPOOL_CHECK(!comes_back || decoded == unspool::unicode::to_valid(bytes));
  check_streaming(tokenizer, ids, streams_as_a_whole);
  for (const int32_t id : ids) UNSPOOL_CHECK(unspool::unicode::is_valid(tokenizer->token_text(id)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (!bytes.empty() && bytes.front() == '{') {
    const auto tokenizer = Tokenizer::from_json(bytes);
    if (tokenizer.ok()) check_text(*tokenizer, "the  <s> 123\n\u00e9e\u0301 aaaa \u65e5\u672c", false, false);
    return 0;
  }
  static const auto tokenizers = make_tokenizers();
  for (const auto& tokenizer : tokenizers) check_text(tokenizer, bytes, tokenizer != tokenizers.back());
  static const auto sentencepiece = make_sentencepiece_tokenizers();
  for (const auto& tokenizer : sentencepiece) check_text(tokenizer, bytes, false);
  std::vector<int32_t> ids;
  for (const uint8_t byte : bytes) ids.push_back(byte < 250 ? byte : byte + 7);
  check_streaming(tokenizers.front(), ids, true);
  check_streaming(sentencepiece.front(), ids, true);
  return 0;
}
