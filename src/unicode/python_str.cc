#include "unicode/python_str.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>

#include "unicode/python_str_tables.h"
#include "unicode/utf8.h"

namespace unspool::unicode {
namespace {

utf8proc_category_t category(char32_t code_point) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool in_ranges(std::span<const CodePointRange> ranges, char32_t code_point) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code_point,
                                      [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges.begin() && code_point <= std::prev(after)->last;
}

void append_mapped(std::string& out, char32_t code_point, std::span<const Mapping> exceptions,
                   utf8proc_int32_t (*simple)(utf8proc_int32_t)) {
  const auto found = std::lower_bound(exceptions.begin(), exceptions.end(), code_point,
                                      [](const Mapping& mapping, char32_t value) { return mapping.from < value; });
  if (found == exceptions.end() || found->from != code_point) {
    append(out, static_cast<char32_t>(simple(static_cast<utf8proc_int32_t>(code_point))));
    return;
  }
  for (const char32_t to : found->to) {
    if (to != 0) append(out, to);
  }
}

}  // namespace

bool is_printable(char32_t code_point) {
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return code_point == ' ';
    default:
      return true;
  }
}

bool is_alpha(char32_t code_point) {
  const auto kind = category(code_point);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t code_point) {
  return category(code_point) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t code_point) {
  return is_decimal(code_point) || in_ranges({kDigit, kDigitSize}, code_point);
}

bool is_numeric_in_python(char32_t code_point) {
  return is_decimal(code_point) || in_ranges({kNumeric, kNumericSize}, code_point);
}

bool is_lowercase(char32_t code_point) {
  return category(code_point) == UTF8PROC_CATEGORY_LL || in_ranges({kLowercase, kLowercaseSize}, code_point);
}

bool is_uppercase(char32_t code_point) {
  return category(code_point) == UTF8PROC_CATEGORY_LU || in_ranges({kUppercase, kUppercaseSize}, code_point);
}

bool is_titlecase(char32_t code_point) {
  return category(code_point) == UTF8PROC_CATEGORY_LT;
}

bool is_cased(char32_t code_point) {
  return is_lowercase(code_point) || is_uppercase(code_point) || is_titlecase(code_point);
}

bool is_case_ignorable(char32_t code_point) {
  switch (category(code_point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      // Punctuation within words.
      return code_point == '\'' || code_point == '.' || code_point == ':' || code_point == 0xB7 ||
             code_point == 0x387 || code_point == 0x55F || code_point == 0x5F4 || code_point == 0x2018 ||
             code_point == 0x2019 || code_point == 0x2024 || code_point == 0x2027;
  }
}

void append_upper(std::string& out, char32_t code_point) {
  append_mapped(out, code_point, {kUpper, kUpperSize}, utf8proc_toupper);
}

void append_lower(std::string& out, char32_t code_point) {
  append_mapped(out, code_point, {kLower, kLowerSize}, utf8proc_tolower);
}

void append_title(std::string& out, char32_t code_point) {
  append_mapped(out, code_point, {kTitle, kTitleSize}, utf8proc_totitle);
}

void append_fold(std::string& out, char32_t code_point) {
  append_mapped(out, code_point, {kFold, kFoldSize}, utf8proc_tolower);
}

}  // namespace unspool::unicode
