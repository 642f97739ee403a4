#pragma once

#include <atomic>

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
  /// Whether uploads may have checksums of CRC32C, as older stores' may not.
  void set_knows_checksums(bool knows) { knows_checksums_ = knows; }
  /// Behaves as the object gateway of Ceph 16 does: writes want the ETag of If-Match bare, copies
  /// and completions of uploads look at no precondition, and answer with a bare ETag and with none.
  void set_is_ceph(bool is_ceph) { is_ceph_ = is_ceph; }
  /// Takes every write, whatever If-None-Match and If-Match say.
  void set_ignores_preconditions(bool ignores) { ignores_preconditions_ = ignores; }
  /// Range that each GET of an object asked for.
  std::vector<std::string> ranges() const;

 private:
  struct Upload {
    std::string name{};
    std::map<int, Object> parts{};
    /// Checksum of each part, in base64, where the upload was begun with these.
    std::optional<std::map<int, std::string>> checksums{};
  };

  CannedResponse act(const HttpCall& call) override;
  std::string version_for(const std::string& bytes) override;
  CannedResponse get(const HttpCall& call, const std::string& name);
  CannedResponse put(const HttpCall& call, const std::string& name);
  CannedResponse copy(const HttpCall& call, const std::string& name);
  CannedResponse list(const HttpCall& call, const std::string& bucket);
  CannedResponse list_uploads(const HttpCall& call, const std::string& bucket);
  CannedResponse complete(const HttpCall& call, const std::string& name);
  CannedResponse begin(const HttpCall& call, const std::string& name);
  CannedResponse put_part(const HttpCall& call);
  CannedResponse remove_many(const HttpCall& call, const std::string& bucket);
  std::optional<CannedResponse> refused(const HttpCall& call, const std::string& name) const;
  std::string etag_in_xml(const std::string& etag) const;

  std::map<std::string, Upload> uploads_;
  std::vector<std::string> ranges_;
  int next_upload_ = 1;
  std::atomic<bool> knows_checksums_{true};
  std::atomic<bool> is_ceph_{false};
  std::atomic<bool> ignores_preconditions_{false};
  // Last: its threads use all of the above.
  HttpTestServer server_;
};

}  // namespace muster::testing
