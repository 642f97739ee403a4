#include "muster/console/live_updates.h"

#include <fmt/core.h>

#include <chrono>
#include <utility>

#include "muster/base/wait.h"

namespace muster::console {
namespace {

// A page that has gone is noticed by what is sent to it.
constexpr std::chrono::seconds kKeepAlive{15};
constexpr std::size_t kMostPages = 200;

}  // namespace

std::string event_text(std::string_view name, std::string_view json) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json);
}

LiveUpdates::LiveUpdates() : keeper_([this](const std::stop_token& stop) { keep_alive(stop); }) {}

LiveUpdates::~LiveUpdates() { close(); }

serving::HttpResponse LiveUpdates::listen() {
  return {
      .content_type = "text/event-stream",
      .body = "retry: 2000\n\n",
      .headers = {{"Cache-Control", "no-store"}},
      .stream = [this](std::shared_ptr<serving::HttpStream> stream) { add(std::move(stream)); }};
}

void LiveUpdates::add(std::shared_ptr<serving::HttpStream> stream) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return stream->close();
  if (streams_.size() >= kMostPages) {
    streams_.front()->close();
    streams_.erase(streams_.begin());
  }
  streams_.push_back(std::move(stream));
}

void LiveUpdates::send(const std::string& text) {
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [&](const auto& stream) { return !stream->send(text); });
}

void LiveUpdates::publish(std::string_view name, std::string_view json) {
  send(event_text(name, json));
}

std::size_t LiveUpdates::pages() const {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

void LiveUpdates::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const auto& stream : streams_) stream->close();
  streams_.clear();
}

void LiveUpdates::keep_alive(const std::stop_token& stop) {
  while (nap(stop, kKeepAlive)) send(": still here\n\n");
}

}  // namespace muster::console
