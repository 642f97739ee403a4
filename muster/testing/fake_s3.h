#pragma once

#include "muster/testing/fake_store.h"

namespace muster::testing {

/// An S3 in memory with path-style addresses: objects with ETags and preconditions, ranges, pages
/// of lists, copies, uploads in parts. It checks no signatures.
class FakeS3 : public FakeStore {
 public:
  FakeS3();

  const std::string& url() const override { return server_.url(); }
  std::size_t open_uploads() const override;
  HttpTestServer& server() { return server_; }
  /// What each GET of an object asked for.
  std::vector<std::string> ranges() const;

 private:
  struct Upload {
    std::string name{};
    std::map<int, Object> parts{};
  };

  HttpAnswer act(const HttpCall& call) override;
  std::string version_for(const std::string& bytes) override;
  HttpAnswer get(const HttpCall& call, const std::string& name);
  HttpAnswer put(const HttpCall& call, const std::string& name);
  HttpAnswer copy(const HttpCall& call, const std::string& name);
  HttpAnswer list(const HttpCall& call, const std::string& bucket);
  HttpAnswer list_uploads(const HttpCall& call, const std::string& bucket);
  HttpAnswer complete(const HttpCall& call, const std::string& name);
  HttpAnswer put_part(const HttpCall& call);
  HttpAnswer remove_many(const HttpCall& call, const std::string& bucket);
  std::optional<HttpAnswer> refused(const HttpCall& call, const std::string& name) const;

  std::map<std::string, Upload> uploads_;
  std::vector<std::string> ranges_;
  int next_upload_ = 1;
  // Last: its threads use all of the above.
  HttpTestServer server_;
};

}  // namespace muster::testing
