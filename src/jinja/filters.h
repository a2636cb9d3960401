// Filters and tests by name.
#pragma once

#include <string_view>

#include "jinja/object.h"
#include "jinja/value.h"

namespace unspool::jinja {

using FilterBody = Value (*)(Interpreter& interpreter, const Value& value, Arguments arguments);
using TestBody = FilterBody;

// nullptr where there is none.
FilterBody find_filter(std::string_view name);
TestBody find_test(std::string_view name);

struct NamedFilter {
  std::string_view name;
  FilterBody body;
};
// The parts of the table, in the files of their names.
FilterBody find_text_filter(std::string_view name);      // filters_text.cc
FilterBody find_layout_filter(std::string_view name);    // filters_layout.cc
FilterBody find_sequence_filter(std::string_view name);  // filters_sequence.cc
FilterBody find_select_filter(std::string_view name);    // filters_select.cc
FilterBody find_number_filter(std::string_view name);    // filters_number.cc

template <size_t N>
FilterBody find_in(const NamedFilter (&table)[N], std::string_view name) {
  for (const NamedFilter& filter : table) {
    if (filter.name == name) return filter.body;
  }
  return nullptr;
}

}  // namespace unspool::jinja
