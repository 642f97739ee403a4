#include "muster/platform/stores/list_pages.h"

#include "muster/base/error.h"

namespace muster::stores {
namespace {

constexpr int kPageKeys = 1000;

}  // namespace

void ListProgress::add_page(std::size_t entries, const std::string& next) {
  entries_ += entries;
  if (entries_ > limits_.most_entries) {
    throw DataLoss("{}: the store has named more than {} entries; divide the folder", what_,
                   limits_.most_entries);
  }
  if (next.empty()) return;
  empty_pages_ = entries == 0 ? empty_pages_ + 1 : 0;
  if (empty_pages_ > limits_.most_empty_pages) {
    throw DataLoss("{}: the store's list does not end: {} pages in a row have no entry", what_,
                   empty_pages_);
  }
  if (++pages_ > limits_.most_pages) {
    throw DataLoss("{}: the store's list does not end: it has more than {} pages", what_,
                   limits_.most_pages);
  }
  if (!places_.insert(std::hash<std::string>()(next)).second) {
    throw DataLoss(
        "{}: the store's list does not end: page {} continues where an earlier one did; ask who "
        "runs the store",
        what_, pages_);
  }
}

void for_each_page(ObjectApi& api, const ObjectName& prefix, const std::string& delimiter,
                   const std::string& what, const std::function<void(const ObjectPage&)>& take) {
  ListProgress progress(what);
  std::string from;
  do {
    const ObjectPage page = api.list(prefix, delimiter, from, kPageKeys);
    progress.add_page(page.objects.size() + page.prefixes.size(), page.next);
    take(page);
    from = page.next;
  } while (!from.empty());
}

}  // namespace muster::stores
