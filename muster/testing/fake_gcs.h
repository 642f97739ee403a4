#pragma once

#include "muster/testing/fake_store.h"

namespace muster::testing {

/// A Google Cloud Storage in memory, by its JSON API: generations and preconditions, ranges, pages
/// of lists, resumable uploads, compose and rewrite. Anybody may use it.
class FakeGcs : public FakeStore {
 public:
  FakeGcs();

  const std::string& url() const override { return server_.url(); }
  std::size_t open_uploads() const override;
  /// A session whose first answer was lost cannot be ended by anybody, but holds nothing.
  std::size_t orphans() const override;
  /// Takes no more than this of each chunk of an upload at once.
  void set_most_taken(std::size_t bytes) { most_taken_ = bytes; }

 private:
  struct Session {
    std::string name{};
    std::optional<std::string> match{};
    std::string bytes{};
    bool is_done = false;
  };

  CannedResponse act(const HttpCall& call) override;
  std::string version_for(const std::string&) override {
    return std::to_string(next_generation_++);
  }
  CannedResponse get(const HttpCall& call, const std::string& name);
  CannedResponse list(const HttpCall& call, const std::string& bucket);
  CannedResponse upload(const HttpCall& call, const std::string& bucket);
  CannedResponse continue_session(const HttpCall& call);
  CannedResponse compose(const HttpCall& call, const std::string& bucket, const std::string& name);
  bool matches(const std::optional<std::string>& wanted, const std::string& name) const;
  std::string text_of(const std::string& name) const;

  std::map<std::string, Session> sessions_;
  std::int64_t next_generation_ = 1'700'000'000'000'001;
  std::size_t most_taken_ = std::size_t{1} << 40;
  // Last: its threads use all of the above.
  HttpTestServer server_;
};

}  // namespace muster::testing
