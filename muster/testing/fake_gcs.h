#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/testing/flaky_answers.h"
#include "muster/testing/http_test_server.h"

namespace muster::testing {

/// A Google Cloud Storage in memory, by its JSON API: generations and preconditions, ranges, pages
/// of lists, resumable uploads, compose and rewrite. Any bucket is there, and anybody may use it.
class FakeGcs {
 public:
  struct Object {
    std::string bytes{};
    std::int64_t generation = 0;
  };

  FakeGcs();

  const std::string& url() const { return server_.url(); }
  /// Looks at every call first; what it returns is answered in the place of the store.
  void set_fault(std::function<std::optional<HttpAnswer>(const HttpCall&)> fault);
  void fail_randomly(int percent, std::uint64_t seed) { flaky_.set(percent, seed); }
  void set_page_keys(std::size_t keys) { page_keys_ = keys; }
  /// Of each chunk of an upload, no more than this is taken at once.
  void set_most_taken(std::size_t bytes) { most_taken_ = bytes; }

  /// By "bucket/key".
  std::map<std::string, Object> objects() const;
  std::optional<std::string> bytes_of(const std::string& name) const;
  void set_bytes(const std::string& name, std::string bytes);
  std::size_t open_uploads() const;
  int calls(const std::string& kind) const;

 private:
  struct Session {
    std::string name{};
    std::optional<std::int64_t> match{};
    std::string bytes{};
    /// Of the object that it has become.
    std::int64_t done = 0;
  };

  HttpAnswer handle(const HttpCall& call);
  HttpAnswer act(const HttpCall& call);
  HttpAnswer get(const HttpCall& call, const std::string& name);
  HttpAnswer list(const HttpCall& call, const std::string& bucket);
  HttpAnswer upload(const HttpCall& call, const std::string& bucket);
  HttpAnswer continue_session(const HttpCall& call);
  HttpAnswer compose(const HttpCall& call, const std::string& bucket, const std::string& name);
  bool matches(std::optional<std::int64_t> wanted, const std::string& name) const;
  HttpAnswer store(const std::string& name, std::string bytes);
  std::string text_of(const std::string& name) const;

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Session> sessions_;
  std::map<std::string, int> calls_;
  std::int64_t next_generation_ = 1'700'000'000'000'001;
  std::size_t page_keys_ = 1000;
  std::size_t most_taken_ = std::size_t{1} << 40;
  std::function<std::optional<HttpAnswer>(const HttpCall&)> fault_;
  FlakyAnswers flaky_;
  // Last: its threads use all of the above.
  HttpTestServer server_;
};

}  // namespace muster::testing
