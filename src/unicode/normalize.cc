#include "unicode/normalize.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "unicode/categories.h"
#include "unicode/utf8.h"

namespace unspool::unicode {
namespace {

// The longest full decomposition is U+FDFA's, of 18.
constexpr int kMaxDecomposition = 32;

utf8proc_propval_t combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Sorts each run of combining marks by class. utf8proc's own decomposition sorts by swapping neighbours, which takes
// quadratic time on a long run: a client could send one.
void order_marks(std::vector<utf8proc_int32_t>& code_points) {
  for (auto it = code_points.begin(); it != code_points.end();) {
    if (combining_class(*it) == 0) {
      ++it;
      continue;
    }
    const auto end = std::find_if(it, code_points.end(), [](auto c) { return combining_class(c) == 0; });
    std::stable_sort(it, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    it = end;
  }
}

// Whether a code point neither changes nor joins with others in any form.
bool stands_alone(char32_t code_point) {
  // To the tables of the library it is unassigned.
  if ((properties(code_point) & kNewerThanNormalForms) != 0) return true;
  // One before the first trailing consonant of Hangul: utf8proc takes it for "no consonant" and swallows it when it
  // composes.
  return code_point == 0x11A7;
}

// Writes the collected, decomposed code points to `out` in their final order and form.
void flush(std::vector<utf8proc_int32_t>& code_points, bool compose, std::string& out) {
  if (code_points.empty()) return;
  order_marks(code_points);
  auto count = static_cast<utf8proc_ssize_t>(code_points.size());
  if (compose) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    count = utf8proc_normalize_utf32(code_points.data(), count, options);
    UNSPOOL_CHECK(count >= 0, "utf8proc: {}", utf8proc_errmsg(count));
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) append(out, static_cast<char32_t>(code_points[i]));
  code_points.clear();
}

// Nothing below U+0080 changes in any form, and nothing below U+0300 in NFC.
bool is_plain(std::string_view text, NormalForm form) {
  const unsigned char first_doubtful = form == NormalForm::kNfc ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [=](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < first_doubtful;
  });
}

}  // namespace

std::string normalize(std::string_view text, NormalForm form) {
  if (is_plain(text, form)) return std::string(text);
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compat = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0));
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> code_points;
  for (size_t at = 0; at < text.size();) {
    const Decoded character = decode(text, at);
    at += character.size_bytes;
    if (stands_alone(character.code_point)) {
      flush(code_points, compose, out);
      append(out, character.code_point);
      continue;
    }
    utf8proc_int32_t parts[kMaxDecomposition];
    int boundary_class = 0;
    const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code_point), parts,
                                               kMaxDecomposition, options, &boundary_class);
    UNSPOOL_CHECK(count >= 0 && count <= kMaxDecomposition, "U+{:04X} decomposes into {} code points",
                  static_cast<uint32_t>(character.code_point), count);
    code_points.insert(code_points.end(), parts, parts + count);
  }
  flush(code_points, compose, out);
  return out;
}

}  // namespace unspool::unicode
