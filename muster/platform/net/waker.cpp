#include "muster/platform/net/waker.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "muster/base/error.h"

namespace muster::net {

Waker::Waker() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) throw_errno(errno, "making an event");
}

Waker::~Waker() { ::close(descriptor_); }

void Waker::set() noexcept {
  if (!is_set_) ::eventfd_write(descriptor_, 1);
  is_set_ = true;
}

void Waker::reset() noexcept {
  eventfd_t count = 0;
  if (is_set_) ::eventfd_read(descriptor_, &count);
  is_set_ = false;
}

}  // namespace muster::net
