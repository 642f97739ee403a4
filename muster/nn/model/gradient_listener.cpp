#include "muster/nn/model/gradient_listener.h"

#include <utility>

namespace muster {
namespace {

thread_local GradientListener* innermost_listener = nullptr;

}  // namespace

GradientScope::GradientScope(GradientListener* listener)
    : outer_(std::exchange(innermost_listener, listener)) {}

GradientScope::~GradientScope() { innermost_listener = outer_; }

GradientListener* GradientScope::current() { return innermost_listener; }

}  // namespace muster
