// The keys that a store lists become paths on this host: none may lead out of its folder, and a
// list without an end must be ended. The input is a list: lines of keys, or prefixes where a line
// begins with '+', in pages between lines of '=' and where the next page begins.

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/fuzz.h"
#include "muster/base/error.h"
#include "muster/base/path_below.h"
#include "muster/platform/stores/object_api.h"
#include "muster/platform/stores/object_file_system.h"
#include "muster/platform/stores/s3_xml.h"

namespace {

using muster::Path;
using muster::stores::ObjectName;
using muster::stores::ObjectPage;

std::vector<ObjectPage> pages_of(std::string_view text) {
  std::vector<ObjectPage> pages(1);
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with('=')) {
      pages.back().next = line.substr(1);
      pages.emplace_back();
    } else if (line.starts_with('+')) {
      pages.back().prefixes.emplace_back(line.substr(1));
    } else {
      pages.back().objects.emplace_back(line, muster::stores::ObjectInfo{});
    }
  }
  return pages;
}

/// A store that answers whatever it is asked with the pages of the input, again and again.
class ListOnly : public muster::stores::ObjectApi {
 public:
  explicit ListOnly(std::vector<ObjectPage> pages) : pages_(std::move(pages)) {}

  ObjectPage list(const ObjectName&, const std::string&, const std::string&, int) override {
    return pages_[next_++ % pages_.size()];
  }
  std::optional<muster::stores::ObjectInfo> head(const ObjectName&) override { return {}; }
  muster::stores::ObjectRange get(const ObjectName&, std::uint64_t, std::uint64_t,
                                  const std::string&, const std::stop_token&) override {
    return {};
  }
  std::string put(const ObjectName&, std::string_view,
                  const muster::stores::Precondition&) override {
    return "";
  }
  void remove(const ObjectName&) override {}
  std::string impossible_version() const override { return ""; }
  std::unique_ptr<muster::stores::ObjectUpload> begin_upload(
      const ObjectName&, const muster::stores::Precondition&) override {
    return nullptr;
  }
  std::string extend(const ObjectName&, const std::string&, std::string_view) override {
    return "";
  }
  void remove_all(const std::string&, const std::vector<std::string>&) override {}
  void copy(const ObjectName&, const ObjectName&) override {}
  int abort_uploads(const ObjectName&, std::int64_t) override { return 0; }
  std::uint64_t part_bytes() const override { return 5 << 20; }

 private:
  const std::vector<ObjectPage> pages_;
  std::size_t next_ = 0;
};

// In the words of paths: whether `path` is `folder` with this many names after it.
bool lies_below(const Path& path, const Path& folder, std::ptrdiff_t names) {
  const Path rest = path.lexically_normal().lexically_relative(folder);
  return std::distance(rest.begin(), rest.end()) == names && !rest.empty() &&
         *rest.begin() != ".." && *rest.begin() != ".";
}

void check_name(std::string_view name) {
  try {
    const Path path = muster::path_below("/a/folder", name);
    const auto slashes = std::count(name.begin(), name.end(), '/');
    if (!lies_below(path, "/a/folder", slashes + 1)) std::abort();
    if (path.native().find('\0') != std::string::npos) std::abort();
  } catch (const muster::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_name(text);
  const auto transfers = std::make_shared<muster::stores::Transfers>();
  const auto api = std::make_shared<ListOnly>(pages_of(text));
  const auto store = muster::stores::make_object_file_system(
      "s3", [api] { return api; }, transfers, {}, nullptr);
  try {
    for (const std::string& name : store->list("s3://bucket/d")) {
      if (!lies_below(Path("/a/folder") / name, "/a/folder", 1)) std::abort();
    }
  } catch (const muster::Error&) {
  }
  try {
    for (const auto& object : muster::stores::parse_s3_page(text).objects) check_name(object.key);
  } catch (const muster::Error&) {
  }
  return 0;
}

std::vector<std::string> muster::fuzz::seeds() {
  return {"d/a\nd/b\n+d/inner/\n=second\nd/c\n",
          "d/\nd/../../../../escaped\n+d/../\n+d//\n+/\n",
          "=a\n=b\n=a\n",
          "a/../b",
          std::string("/etc/passwd\0", 12),
          "a\\..\\b/" + std::string(5000, 'x'),
          "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>d%2F..%2Fx</Key><Size>"
          "18446744073709551616</Size></Contents><CommonPrefixes><Prefix>%2F</Prefix></"
          "CommonPrefixes><IsTruncated>true</IsTruncated><NextContinuationToken>x</"
          "NextContinuationToken></ListBucketResult>"};
}

muster::fuzz::MemoryBound muster::fuzz::memory_bound() { return {.bytes_per_input_byte = 512}; }
