// Characters as the methods of Python's str see them.
#pragma once

#include <string>

namespace unspool::unicode {

bool is_printable(char32_t code_point);  // str.isprintable, which decides what repr() escapes
bool is_alpha(char32_t code_point);      // str.isalpha
bool is_decimal(char32_t code_point);    // str.isdecimal
bool is_digit(char32_t code_point);      // str.isdigit
bool is_numeric_in_python(char32_t code_point);
bool is_lowercase(char32_t code_point);  // Unicode's Lowercase
bool is_uppercase(char32_t code_point);
bool is_titlecase(char32_t code_point);
bool is_cased(char32_t code_point);
bool is_case_ignorable(char32_t code_point);

// Appends what Python's upper(), lower(), title() and casefold() make of one character. The sigma at the end of a word
// is the caller's.
void append_upper(std::string& out, char32_t code_point);
void append_lower(std::string& out, char32_t code_point);
void append_title(std::string& out, char32_t code_point);
void append_fold(std::string& out, char32_t code_point);

}  // namespace unspool::unicode
