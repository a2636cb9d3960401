// Searching and cutting of strings, for the methods of str and the filters that are those methods.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "jinja/text.h"
#include "jinja/value.h"

namespace unspool::jinja {

class Interpreter;

// Without the characters of `chars` (nullopt: space) at the chosen ends.
Text strip(const Text& text, std::optional<std::string_view> chars, bool at_start, bool at_end);
// str.replace; a negative count is all.
Text replace(const Text& text, std::string_view old, const Text& with, Integer count);
// str.splitlines.
std::vector<Text> split_lines(const Text& text, bool keep_ends);
// str.split and str.rsplit; without a separator, at runs of space.
std::vector<Text> split(const Text& text, std::optional<std::string_view> separator, Integer max_splits, bool from_end);

// str.isupper and str.islower.
bool is_all_case(std::string_view text, bool is_upper);
Text upper(const Text& text);
Text lower(const Text& text);
Text capitalize(const Text& text);

// Characters of `count` of `fill` before and after.
Text pad(const Text& text, size_t before, size_t after, const Text& fill);
Text center(const Text& text, size_t width, const Text& fill);

// replace() on values that are strings, paid for.
Value replace_text(Interpreter& interpreter, const Value& self, const Value& old, const Value& with, Integer count);

}  // namespace unspool::jinja
