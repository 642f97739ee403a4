#pragma once

#include "muster/testing/fake_store.h"

namespace muster::testing {

/// An HDFS in memory by WebHDFS, a namenode and a datanode that it redirects to: files that grow,
/// folders, renames with and without options. Files are objects named by their paths without the
/// first '/', their versions are the ids that stay with them.
class FakeWebHdfs : public FakeStore {
 public:
  FakeWebHdfs();

  /// URL of the namenode.
  const std::string& url() const override { return namenode_.url(); }
  /// Files that a writer has left under a temporary name.
  std::size_t open_uploads() const override;
  /// As some gateways do: options of a rename are not understood.
  void ignore_rename_options() { knows_options_ = false; }
  /// Keeps half of each of the next this many appends, and answers nothing.
  void cut_appends(int count) { cuts_ = count; }
  /// Users that the calls named.
  std::set<std::string> users() const;

 private:
  CannedResponse act(const HttpCall& call) override;
  std::string version_for(const std::string&) override { return std::to_string(next_id_++); }

  CannedResponse redirect(const HttpCall& call, const std::string& op, const std::string& path);
  CannedResponse status(const std::string& path) const;
  CannedResponse list(const std::string& path) const;
  CannedResponse open(const HttpCall& call, const std::string& path) const;
  CannedResponse create(const HttpCall& call, const std::string& path);
  CannedResponse append(const HttpCall& call, const std::string& path);
  CannedResponse make_folders(const std::string& path);
  CannedResponse rename(const HttpCall& call, const std::string& from);
  CannedResponse remove(const HttpCall& call, const std::string& path);

  bool is_folder(const std::string& path) const;
  bool exists(const std::string& path) const { return objects_.contains(path) || is_folder(path); }
  void make_parents(const std::string& path);
  void move(const std::string& from, const std::string& to);
  std::string entry(const std::string& path, const std::string& name) const;

  std::set<std::string> folders_;
  std::set<std::string> users_;
  std::int64_t next_id_ = 16'385;
  std::atomic<bool> knows_options_{true};
  std::atomic<int> cuts_{0};
  // Last: their threads use all of the above.
  HttpTestServer datanode_;
  HttpTestServer namenode_;
};

}  // namespace muster::testing
