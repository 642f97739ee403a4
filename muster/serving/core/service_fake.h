#pragma once

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "muster/serving/core/servable_fake.h"
#include "muster/serving/core/service.h"

namespace muster::serving {

/// For tests: what every edge stands on, with a model "m". Its version N adds N, and version 1 has
/// the label "stable".
class FakeService {
 public:
  explicit FakeService(int versions = 2, LoadServable load = load_fake,
                       std::shared_ptr<ResponseCache> cache = nullptr)
      : store_({.load = std::move(load),
                .cache = std::move(cache),
                .slots = 1,
                .poll_interval = std::chrono::milliseconds(0)}) {
    for (int number = 1; number <= versions; ++number) {
      write_fake(folder_ / fmt::format("m/{}", number), std::to_string(number));
    }
    store_.configure(
        {{.name = "m", .base_path = folder_ / "m", .policy = {.kind = VersionPolicy::Kind::kAll}}});
    store_.wait_until_settled(Deadline::never());
    store_.set_labels("m", {{"stable", 1}});
    service_.configure(store_.models());
  }

  /// The folder of its models' folders.
  const testing::TempDir& folder() const { return folder_; }
  ModelStore& store() { return store_; }
  Service& service() { return service_; }

 private:
  testing::TempDir folder_;
  ModelStore store_;
  Service service_{store_, Access()};
};

}  // namespace muster::serving
