#include "jinja/string_search.h"

#include <algorithm>

#include "jinja/characters.h"
#include "unicode/python_str.h"
#include "unicode/utf8.h"

namespace unspool::jinja {
namespace {

bool has_character(std::string_view characters, std::string_view one) {
  for (size_t at = 0; at < characters.size();) {
    const size_t size = unicode::decode(characters, at).size_bytes;
    if (characters.substr(at, size) == one) return true;
    at += size;
  }
  return false;
}

// The line break at `at`, or 0: what Python's splitlines takes for one.
size_t line_break_size(std::string_view text, size_t at) {
  const auto [code_point, size] = unicode::decode(text, at);
  if (code_point == '\r') return text.substr(at + 1).starts_with('\n') ? 2 : 1;
  const bool is_break = (code_point >= '\n' && code_point <= '\f') || (code_point >= 0x1C && code_point <= 0x1E) ||
                        code_point == 0x85 || code_point == 0x2028 || code_point == 0x2029;
  return is_break ? size : 0;
}

// Words between runs of space, at most max_splits of them cut off from the start.
std::vector<Text> split_at_space(const Text& text, Integer max_splits) {
  std::vector<Text> parts;
  const std::string_view view = text.view();
  size_t at = leading_space(view);
  while (at < view.size()) {
    if (max_splits >= 0 && static_cast<Integer>(parts.size()) == max_splits) {
      parts.push_back(text.slice(at, view.size() - trailing_space(view)));
      return parts;
    }
    size_t end = at;
    while (end < view.size()) {
      const auto [code_point, size] = unicode::decode(view, end);
      if (is_space(code_point)) break;
      end += size;
    }
    parts.push_back(text.slice(at, end));
    at = end + leading_space(view.substr(end));
  }
  return parts;
}

std::vector<Text> split_at_space_from_end(const Text& text, Integer max_splits) {
  std::vector<Text> parts;
  const std::string_view view = text.view();
  size_t end = view.size() - trailing_space(view);
  while (end > 0) {
    if (max_splits >= 0 && static_cast<Integer>(parts.size()) == max_splits) {
      parts.push_back(text.slice(leading_space(view), end));
      break;
    }
    size_t begin = end;
    while (begin > 0) {
      const auto [code_point, size] = unicode::decode_before(view, begin);
      if (is_space(code_point)) break;
      begin -= size;
    }
    parts.push_back(text.slice(begin, end));
    end = begin - trailing_space(view.substr(0, begin));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

// Lower case, with the sigma that ends a word.
void append_lower_at(std::string& out, std::string_view text, size_t at, char32_t code_point, size_t size) {
  if (code_point != 0x3A3) return unicode::append_lower(out, code_point);
  size_t before = at;
  bool follows_letter = false;
  while (before > 0) {
    const auto [previous, previous_size] = unicode::decode_before(text, before);
    before -= previous_size;
    if (unicode::is_case_ignorable(previous)) continue;
    follows_letter = unicode::is_cased(previous);
    break;
  }
  size_t after = at + size;
  bool precedes_letter = false;
  while (after < text.size()) {
    const auto [next, next_size] = unicode::decode(text, after);
    after += next_size;
    if (unicode::is_case_ignorable(next)) continue;
    precedes_letter = unicode::is_cased(next);
    break;
  }
  unicode::append(out, follows_letter && !precedes_letter ? 0x3C2 : 0x3C3);
}

// Maps every character, each with its own origin.
template <class Map>
Text map_characters(const Text& text, Map map) {
  Text out;
  for (const Text::Run& run : text.runs()) {
    std::string mapped;
    for (size_t at = run.begin; at < run.end;) {
      const auto [code_point, size] = unicode::decode(text.view(), at);
      map(mapped, at, code_point, size);
      at += size;
    }
    out.append(mapped, run.origin);
  }
  return out;
}

}  // namespace

Text strip(const Text& text, std::optional<std::string_view> chars, bool at_start, bool at_end) {
  const std::string_view view = text.view();
  const auto is_stripped = [&](size_t at, unicode::Decoded character) {
    return chars ? has_character(*chars, view.substr(at, character.size_bytes)) : is_space(character.code_point);
  };
  size_t begin = 0;
  size_t end = view.size();
  while (at_start && begin < end) {
    const auto character = unicode::decode(view, begin);
    if (!is_stripped(begin, character)) break;
    begin += character.size_bytes;
  }
  while (at_end && begin < end) {
    const auto character = unicode::decode_before(view, end);
    if (!is_stripped(end - character.size_bytes, character)) break;
    end -= character.size_bytes;
  }
  return text.slice(begin, end);
}

Text replace(const Text& text, std::string_view old, const Text& with, Integer count) {
  Text out;
  const std::string_view view = text.view();
  size_t copied = 0;
  const auto is_done = [&] { return count == 0; };
  if (old.empty()) {
    // Before every character and at the end.
    for (size_t at = 0; !is_done(); --count) {
      out.append(with);
      if (at >= view.size()) return out;
      const size_t size = unicode::decode(view, at).size_bytes;
      out.append(text, at, at + size);
      at += size;
      copied = at;
    }
  } else {
    for (size_t at = view.find(old); at != std::string_view::npos && !is_done(); at = view.find(old, copied), --count) {
      out.append(text, copied, at);
      out.append(with);
      copied = at + old.size();
    }
  }
  out.append(text, copied, text.size());
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  std::vector<Text> lines;
  const std::string_view view = text.view();
  size_t begin = 0;
  for (size_t at = 0; at < view.size();) {
    const size_t size = line_break_size(view, at);
    if (size == 0) {
      at += unicode::decode(view, at).size_bytes;
      continue;
    }
    lines.push_back(text.slice(begin, keep_ends ? at + size : at));
    at += size;
    begin = at;
  }
  if (begin < view.size()) lines.push_back(text.slice(begin, view.size()));
  return lines;
}

std::vector<Text> split(const Text& text, std::optional<std::string_view> separator, Integer max_splits,
                        bool from_end) {
  if (!separator) return from_end ? split_at_space_from_end(text, max_splits) : split_at_space(text, max_splits);
  std::vector<Text> parts;
  const std::string_view view = text.view();
  const auto may_split = [&] { return max_splits < 0 || static_cast<Integer>(parts.size()) < max_splits; };
  if (!from_end) {
    size_t begin = 0;
    for (size_t at = view.find(*separator); at != std::string_view::npos && may_split();
         at = view.find(*separator, begin)) {
      parts.push_back(text.slice(begin, at));
      begin = at + separator->size();
    }
    parts.push_back(text.slice(begin, view.size()));
    return parts;
  }
  size_t end = view.size();
  while (may_split()) {
    const size_t at = view.substr(0, end).rfind(*separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.slice(at + separator->size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Text upper(const Text& text) {
  return map_characters(
      text, [](std::string& out, size_t, char32_t code_point, size_t) { unicode::append_upper(out, code_point); });
}

Text lower(const Text& text) {
  return map_characters(text, [&](std::string& out, size_t at, char32_t code_point, size_t size) {
    append_lower_at(out, text.view(), at, code_point, size);
  });
}

Text capitalize(const Text& text) {
  return map_characters(text, [&](std::string& out, size_t at, char32_t code_point, size_t size) {
    if (at == 0) {
      unicode::append_title(out, code_point);
    } else {
      append_lower_at(out, text.view(), at, code_point, size);
    }
  });
}

Text pad(const Text& text, size_t before, size_t after, const Text& fill) {
  const auto repeated = [&](size_t count) {
    if (fill.size() == 1) return Text(std::string(count, fill.bytes()[0]), fill.origin_at(0));
    Text out;
    for (size_t i = 0; i < count; ++i) out.append(fill);
    return out;
  };
  Text out = repeated(before);
  out.append(text);
  out.append(repeated(after));
  return out;
}

}  // namespace unspool::jinja
