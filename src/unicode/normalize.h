// The four normal forms of Unicode.
#pragma once

#include <string>
#include <string_view>

namespace unspool::unicode {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` must be valid UTF-8. Code points newer than the tables of PyPI's `tokenizers` are left as they are (see
// kNewerThanNormalForms). Takes n log n time whatever the text, long runs of combining marks included.
std::string normalize(std::string_view text, NormalForm form);

}  // namespace unspool::unicode
