// Programs that include muster/muster.h alone have the operators of the tensors that it gives them.
#include "muster/muster.h"

at::Tensor centred(const muster::Features& features) {
  return (features.tensor("a") - 120) / 255.0;
}
at::Tensor mask_of(const muster::Features& features) {
  return -(2 * features.tensor("a") + features.tensor("b")) > 0;
}
