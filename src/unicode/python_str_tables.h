// The generated tables behind python_str.h (tools/make_python_str_tables.py). Each is ascending.
#pragma once

#include <cstddef>

namespace unspool::unicode {

struct Mapping {
  char32_t from;
  char32_t to[3];  // ends with zeros
};
struct CodePointRange {
  char32_t first;
  char32_t last;
};

// What Python maps otherwise than utf8proc.
extern const Mapping kUpper[];
extern const size_t kUpperSize;
extern const Mapping kLower[];
extern const size_t kLowerSize;
extern const Mapping kTitle[];
extern const size_t kTitleSize;
extern const Mapping kFold[];
extern const size_t kFoldSize;

// What Python counts in beyond the categories Nd, Ll and Lu.
extern const CodePointRange kDigit[];
extern const size_t kDigitSize;
extern const CodePointRange kNumeric[];
extern const size_t kNumericSize;
extern const CodePointRange kLowercase[];
extern const size_t kLowercaseSize;
extern const CodePointRange kUppercase[];
extern const size_t kUppercaseSize;

}  // namespace unspool::unicode
