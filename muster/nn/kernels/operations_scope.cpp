#include "muster/nn/kernels/operations_scope.h"

namespace muster::kernels {
namespace {

thread_local int scopes = 0;

}  // namespace

OperationsScope::OperationsScope() { ++scopes; }
OperationsScope::~OperationsScope() { --scopes; }

bool wants_operations() { return scopes > 0; }

}  // namespace muster::kernels
