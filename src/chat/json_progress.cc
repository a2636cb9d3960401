#include "chat/json_progress.h"

#include "json/syntax_error.h"

namespace unspool::chat {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

}  // namespace

void JsonProgress::push(char c) {
  switch (place_) {
    case Place::kValue:
      if (!is_space(c)) begin_value(c);
      return;
    case Place::kFirstElement:
      if (c == ']') {
        open_.pop_back();
        end_value();
      } else if (!is_space(c)) {
        begin_value(c);
      }
      return;
    case Place::kFirstKey:
    case Place::kKey:
      if (c == '"') {
        in_key_ = true;
        place_ = Place::kString;
      } else if (c == '}' && place_ == Place::kFirstKey) {
        open_.pop_back();
        end_value();
      } else if (!is_space(c)) {
        place_ = Place::kFailed;
      }
      return;
    case Place::kColon:
      if (c == ':') {
        place_ = Place::kValue;
      } else if (!is_space(c)) {
        place_ = Place::kFailed;
      }
      return;
    case Place::kString:
    case Place::kEscape:
    case Place::kHex:
      return push_string(c);
    case Place::kNumber:
      return push_number(c);
    case Place::kWord:
      return push_word(c);
    case Place::kAfterValue:
      return push_after_value(c);
    case Place::kEnd:
      if (!is_space(c)) place_ = Place::kFailed;
      return;
    case Place::kFailed:
      return;
  }
}

void JsonProgress::begin_word(std::string_view word) {
  word_ = word.substr(1);
  place_ = Place::kWord;
}

void JsonProgress::open(char c) {
  if (open_.size() == kMaxJsonDepth) {
    place_ = Place::kFailed;
    return;
  }
  open_.push_back(c == '{');
  place_ = c == '{' ? Place::kFirstKey : Place::kFirstElement;
}

void JsonProgress::begin_value(char c) {
  switch (c) {
    case '"':
      in_key_ = false;
      place_ = Place::kString;
      return;
    case '{':
    case '[':
      return open(c);
    case 'n':
      return begin_word("null");
    case 't':
      return begin_word("true");
    case 'f':
      return begin_word("false");
    case 'N':
      return begin_word("NaN");
    case 'I':
      return begin_word("Infinity");
    default:
      if (c != '-' && !is_digit(c)) {
        place_ = Place::kFailed;
        return;
      }
      place_ = Place::kNumber;
      digits_ = c == '-' ? Digits::kMinus : c == '0' ? Digits::kZero : Digits::kInteger;
  }
}

void JsonProgress::end_value() {
  place_ = open_.empty() ? Place::kEnd : Place::kAfterValue;
}

void JsonProgress::push_string(char c) {
  if (place_ == Place::kHex) {
    const char lower = static_cast<char>(c | 0x20);
    if (!is_digit(c) && (lower < 'a' || lower > 'f')) {
      place_ = Place::kFailed;
    } else if (--hex_left_ == 0) {
      place_ = Place::kString;
    }
  } else if (place_ == Place::kEscape) {
    hex_left_ = 4;
    const bool is_letter = std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    place_ = c == 'u' ? Place::kHex : is_letter ? Place::kString : Place::kFailed;
  } else if (c == '\\') {
    place_ = Place::kEscape;
  } else if (c == '"') {
    if (in_key_) {
      place_ = Place::kColon;
    } else {
      end_value();
    }
  } else if (static_cast<unsigned char>(c) < 0x20) {
    place_ = Place::kFailed;
  }
}

void JsonProgress::push_number(char c) {
  const bool digit = is_digit(c);
  switch (digits_) {
    case Digits::kMinus:
      if (c == 'I') return begin_word("Infinity");
      if (!digit) {
        place_ = Place::kFailed;
        return;
      }
      digits_ = c == '0' ? Digits::kZero : Digits::kInteger;
      return;
    case Digits::kInteger:
      if (digit) return;
      [[fallthrough]];
    case Digits::kZero:
      if (c == '.') {
        digits_ = Digits::kPoint;
        return;
      }
      [[fallthrough]];
    case Digits::kFraction:
      if (digits_ == Digits::kFraction && digit) return;
      if (c == 'e' || c == 'E') {
        digits_ = Digits::kExponent;
        return;
      }
      break;
    case Digits::kPoint:
      if (digit) {
        digits_ = Digits::kFraction;
        return;
      }
      break;
    case Digits::kExponent:
      if (c == '+' || c == '-') {
        digits_ = Digits::kExponentSign;
        return;
      }
      [[fallthrough]];
    case Digits::kExponentSign:
    case Digits::kExponentDigits:
      if (digit) {
        digits_ = Digits::kExponentDigits;
        return;
      }
      break;
  }
  if (!number_ends()) {
    place_ = Place::kFailed;
    return;
  }
  end_value();
  push(c);
}

void JsonProgress::push_word(char c) {
  if (c != word_.front()) {
    place_ = Place::kFailed;
    return;
  }
  word_.remove_prefix(1);
  if (word_.empty()) end_value();
}

void JsonProgress::push_after_value(char c) {
  const bool in_object = open_.back();
  if (c == ',') {
    place_ = in_object ? Place::kKey : Place::kValue;
  } else if (c == (in_object ? '}' : ']')) {
    open_.pop_back();
    end_value();
  } else if (!is_space(c)) {
    place_ = Place::kFailed;
  }
}

}  // namespace unspool::chat
