#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <string_view>

#include "muster/serving/http/http_message.h"

namespace muster::console {

/// For tests: a page that listens to a stream.
class ListeningPage final : public serving::HttpStream {
 public:
  bool send(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    text_ += bytes;
    return true;
  }
  void close() override { is_closed_ = true; }
  bool is_closed() const { return is_closed_; }
  bool has(std::string_view part) {
    const std::lock_guard lock(mutex_);
    return text_.find(part) != std::string::npos;
  }

 private:
  std::mutex mutex_;
  std::string text_;
  std::atomic<bool> is_closed_{false};
};

}  // namespace muster::console
