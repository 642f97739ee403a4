#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/testing/flaky_answers.h"
#include "muster/testing/http_test_server.h"

namespace muster::testing {

/// Base of object stores in memory: objects by "bucket/key", faults, pages of lists. Any bucket
/// is there. Any thread may use it.
class FakeStore {
 public:
  struct Object {
    std::string bytes{};
    /// S3's ETag, Google's generation.
    std::string version{};
  };
  using Fault = std::function<std::optional<CannedResponse>(const HttpCall&)>;

  virtual ~FakeStore() = default;
  FakeStore(const FakeStore&) = delete;
  FakeStore& operator=(const FakeStore&) = delete;

  virtual const std::string& url() const = 0;
  /// Uploads that are neither complete nor aborted.
  virtual std::size_t open_uploads() const = 0;
  /// Those of them that cost something once there is no writer any more.
  virtual std::size_t orphans() const { return open_uploads(); }

  /// Looks at every call first; what it returns is answered instead of the store. Called from
  /// several threads.
  void set_fault(Fault fault);
  /// Lets this many of a hundred calls fail, as FlakyAnswers does.
  void fail_randomly(int percent, std::uint64_t seed) { flaky_.set(percent, seed); }
  /// The next call of this method is done and not answered: its connection is closed.
  void lose_answer_of(const std::string& method);
  /// Keys of one page of a list, whatever is asked for.
  void set_page_keys(std::size_t keys) { page_keys_ = keys; }

  std::map<std::string, Object> objects() const;
  std::optional<std::string> bytes_of(const std::string& name) const;
  void set_bytes(const std::string& name, std::string bytes);
  /// How many calls came of "GET", "PUT", ...; "LIST" are those of a bucket's keys.
  int calls(const std::string& kind) const;

 protected:
  /// One page of a list: keys of objects and prefixes after which a delimiter stands.
  struct Page {
    std::vector<std::string> keys{};
    std::set<std::string> prefixes{};
    /// Where the next page begins; empty on the last.
    std::string next{};
  };
  struct Listing {
    std::string bucket{};
    std::string prefix{};
    std::string delimiter{};
    std::string from{};
    std::size_t most = 0;
  };

  /// `busy` is the store's own way to say that it is.
  explicit FakeStore(CannedResponse busy) : busy_(std::move(busy)) {}

  /// Answers a call to the server of a store.
  CannedResponse handle(const HttpCall& call);
  /// Called with the lock held.
  virtual CannedResponse act(const HttpCall& call) = 0;
  virtual std::string version_for(const std::string& bytes) = 0;

  // The rest wants the lock held.
  Object& store(const std::string& name, std::string bytes);
  Page page_of(const Listing& listing) const;
  /// The bytes that the call's Range asks for, with Content-Range, added to `answer`. False where
  /// there are none.
  static bool add_range(const HttpCall& call, const std::string& bytes, CannedResponse& answer);

  mutable std::mutex mutex_;
  std::map<std::string, Object> objects_;
  std::map<std::string, int> calls_;
  std::size_t page_keys_ = 1000;

 private:
  const CannedResponse busy_;
  Fault fault_;
  std::string lost_method_;
  FlakyAnswers flaky_;
};

}  // namespace muster::testing
