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

/// An S3 in memory with path-style addresses: objects with ETags and preconditions, ranges, pages
/// of lists, copies, uploads in parts. It checks no signatures. Any bucket is there.
class FakeS3 {
 public:
  struct Object {
    std::string bytes{};
    std::string etag{};
  };

  FakeS3();

  const std::string& url() const { return server_.url(); }
  HttpTestServer& server() { return server_; }

  /// Looks at every call first; what it returns is answered in the place of the store. Called from
  /// several threads.
  void set_fault(std::function<std::optional<HttpAnswer>(const HttpCall&)> fault);
  /// Lets so many of a hundred calls fail, as FlakyAnswers does.
  void fail_randomly(int percent, std::uint64_t seed) { flaky_.set(percent, seed); }
  /// Keys of one page of a list, whatever is asked for.
  void set_page_keys(std::size_t keys) { page_keys_ = keys; }

  /// By "bucket/key".
  std::map<std::string, Object> objects() const;
  std::optional<std::string> bytes_of(const std::string& name) const;
  void set_bytes(const std::string& name, std::string bytes);
  /// Uploads that are neither complete nor aborted.
  std::size_t open_uploads() const;
  /// How many calls came of "GET", "PUT", ...; "LIST" are those of a bucket's keys.
  int calls(const std::string& kind) const;
  /// What each GET of an object asked for.
  std::vector<std::string> ranges() const;

 private:
  struct Upload {
    std::string name{};
    std::map<int, Object> parts{};
  };

  HttpAnswer handle(const HttpCall& call);
  HttpAnswer act(const HttpCall& call);
  HttpAnswer get(const HttpCall& call, const std::string& name);
  HttpAnswer put(const HttpCall& call, const std::string& name);
  HttpAnswer copy(const HttpCall& call, const std::string& name);
  HttpAnswer list(const HttpCall& call, const std::string& bucket);
  HttpAnswer list_uploads(const HttpCall& call, const std::string& bucket);
  HttpAnswer complete(const HttpCall& call, const std::string& name);
  HttpAnswer put_part(const HttpCall& call);
  HttpAnswer remove_many(const HttpCall& call, const std::string& bucket);
  std::optional<HttpAnswer> refused(const HttpCall& call, const std::string& name) const;

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Upload> uploads_;
  std::map<std::string, int> calls_;
  std::vector<std::string> ranges_;
  int next_upload_ = 1;
  std::size_t page_keys_ = 1000;
  std::function<std::optional<HttpAnswer>(const HttpCall&)> fault_;
  FlakyAnswers flaky_;
  // Last: its threads use all of the above.
  HttpTestServer server_;
};

}  // namespace muster::testing
