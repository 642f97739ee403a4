#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "muster/serving/http/http_message.h"

namespace muster::console {

/// Pages that are open, as streams of server-sent events: each is told what has changed, and asks
/// for what it shows of it. Any thread may call.
class LiveUpdates {
 public:
  LiveUpdates();
  ~LiveUpdates();
  LiveUpdates(const LiveUpdates&) = delete;
  LiveUpdates& operator=(const LiveUpdates&) = delete;

  /// The answer to a page that listens.
  serving::HttpResponse listen();
  /// To all pages: the name of the event, and its data as JSON.
  void publish(std::string_view name, std::string_view json);
  std::size_t pages() const;
  /// Ends all streams; those that come later end at once.
  void close();

 private:
  void add(std::shared_ptr<serving::HttpStream> stream);
  void send(const std::string& text);
  void keep_alive(const std::stop_token& stop);

  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<serving::HttpStream>> streams_;
  bool is_closed_ = false;
  std::jthread keeper_;
};

/// One event as it stands in the stream.
std::string event_text(std::string_view name, std::string_view json);

}  // namespace muster::console
