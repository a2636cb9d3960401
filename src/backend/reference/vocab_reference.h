// The vocabulary kernels, written as plainly as can be: the oracle of backend/cpu's.
#pragma once

#include "backend/vocab_kernels.h"

namespace unspool {

const VocabKernels& reference_vocab_kernels();

}  // namespace unspool
