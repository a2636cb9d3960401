#include "request/outputs.h"

namespace unspool {

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kAbort:
      return "abort";
    case FinishReason::kRepetition:
      return "repetition";
    case FinishReason::kError:
      break;
  }
  return "error";
}

}  // namespace unspool
