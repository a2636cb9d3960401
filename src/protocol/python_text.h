// Values as Python prints them: the reference's messages quote them, and clients match on those texts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unspool::python {

// repr() of a str: single quotes unless the text has them and no double ones.
std::string repr(std::string_view utf8);
// repr() of a float: "3.0", "1e-05", "nan".
std::string repr(double value);
std::string repr(std::span<const int64_t> values);         // "[1, 2]"
std::string repr(const std::vector<std::string>& values);  // "['a', 'b']"

// int(text) and float(text); nullopt where Python raises, or an int is beyond 64 bits.
std::optional<int64_t> parse_int(std::string_view text);
std::optional<double> parse_float(std::string_view text);

// Characters (code points) of UTF-8 text.
int64_t length(std::string_view utf8);
// The first or last `count` characters.
std::string_view first_characters(std::string_view utf8, int64_t count);
std::string_view last_characters(std::string_view utf8, int64_t count);

// bytes.decode("utf-8", "replace"): what is not UTF-8 becomes U+FFFD, one for each maximal broken part.
std::string decode_utf8(std::string_view bytes);

}  // namespace unspool::python
