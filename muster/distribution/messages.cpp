#include <fmt/core.h>

#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/messages_internal.h"
#include "muster/engine/run_terms.h"

namespace muster::internal {
namespace {

void put(HeadWriter& head, const RunTerms& terms) {
  head.put(terms.replicas);
  head.put_number(terms.threads_per_replica);
  head.put_number(terms.seed);
  head.put_number(static_cast<int>(terms.precision));
  head.put(terms.arithmetic);
  head.put(terms.last_step);
  head.put_number(terms.others.size());
  for (const RunTerm& term : terms.others) {
    head.put(term.name);
    head.put(term.value);
  }
}

RunTerms terms_of(HeadReader& head) {
  RunTerms terms;
  terms.replicas = head.number();
  terms.threads_per_replica = static_cast<int>(head.number());
  terms.seed = static_cast<std::uint64_t>(head.number());
  terms.precision = static_cast<ComputeType>(head.number());
  terms.arithmetic = head.text();
  terms.last_step = head.number();
  terms.others.resize(head.count(16));
  for (RunTerm& term : terms.others) {
    term.name = head.text();
    term.value = head.text();
  }
  return terms;
}

void put(HeadWriter& head, const ReplicaRange& range) {
  head.put(range.first);
  head.put(range.last);
}

// Makes sure that nothing follows: a longer message is another one.
template <typename Message>
Message whole(const HeadReader& head, Message message) {
  if (!head.at_end()) throw DataLoss("a message is longer than its kind can be");
  return message;
}

}  // namespace

std::string encode(const RunTerms& message) {
  HeadWriter head;
  put(head, message);
  return head.bytes();
}

RunTerms decode_terms(std::string_view bytes) {
  HeadReader head(bytes);
  RunTerms terms = terms_of(head);
  return whole(head, std::move(terms));
}

std::string encode(const Join& message) {
  HeadWriter head;
  put(head, message.terms);
  head.put(message.address);
  head.put_number(message.is_chief ? 1 : 0);
  head.put_number(message.is_server ? 1 : 0);
  return head.bytes();
}

Join decode_join(std::string_view bytes) {
  HeadReader head(bytes);
  Join join;
  join.terms = terms_of(head);
  join.address = head.text();
  join.is_chief = head.number() != 0;
  join.is_server = head.number() != 0;
  return whole(head, std::move(join));
}

std::string encode(const Ready& message) {
  HeadWriter head;
  head.put(message.epoch);
  head.put(message.progress.step);
  head.put(message.progress.left_out);
  return head.bytes();
}

Ready decode_ready(std::string_view bytes) {
  HeadReader head(bytes);
  Ready ready;
  ready.epoch = head.number();
  ready.progress.step = head.number();
  ready.progress.left_out = head.number();
  return whole(head, ready);
}

std::string encode(const EpochPlan& message) {
  HeadWriter head;
  head.put(message.number);
  head.put_number(message.trainers);
  head.put_number(message.members.size());
  for (const EpochMember& member : message.members) {
    head.put(member.task);
    head.put(member.address);
    put(head, member.replicas);
  }
  return head.bytes();
}

EpochPlan decode_epoch(std::string_view bytes) {
  HeadReader head(bytes);
  EpochPlan plan;
  plan.number = head.number();
  plan.trainers = static_cast<std::size_t>(head.number());
  plan.members.resize(head.count(32));
  for (EpochMember& member : plan.members) {
    member.task = head.text();
    member.address = head.text();
    member.replicas.first = head.number();
    member.replicas.last = head.number();
  }
  return whole(head, std::move(plan));
}

std::string encode(const Source& message) {
  HeadWriter head;
  head.put(message.epoch);
  head.put_number(message.rank);
  head.put_number(message.to.size());
  for (const std::size_t rank : message.to) head.put_number(rank);
  head.put(message.progress.step);
  head.put(message.progress.left_out);
  head.put_number(message.go_back ? 1 : 0);
  return head.bytes();
}

Source decode_source(std::string_view bytes) {
  HeadReader head(bytes);
  Source source;
  source.epoch = head.number();
  source.rank = static_cast<std::size_t>(head.number());
  source.to.resize(head.count(8));
  for (std::size_t& rank : source.to) rank = static_cast<std::size_t>(head.number());
  source.progress.step = head.number();
  source.progress.left_out = head.number();
  source.go_back = head.number() != 0;
  return whole(head, std::move(source));
}

std::string encode_number(std::int64_t number) {
  HeadWriter head;
  head.put(number);
  return head.bytes();
}

std::int64_t decode_number(std::string_view bytes) {
  HeadReader head(bytes);
  const std::int64_t number = head.number();
  return whole(head, number);
}

std::string encode(const std::vector<std::string>& words) {
  HeadWriter head;
  head.put_number(words.size());
  for (const std::string& word : words) head.put(word);
  return head.bytes();
}

std::vector<std::string> decode_words(std::string_view bytes) {
  HeadReader head(bytes);
  std::vector<std::string> words(head.count(8));
  for (std::string& word : words) word = head.text();
  return whole(head, std::move(words));
}

std::string difference(const RunTerms& chief, const RunTerms& task, bool is_server) {
  if (chief.arithmetic != task.arithmetic) {
    return fmt::format("the chief computes with '{}', this task with '{}'", chief.arithmetic,
                       task.arithmetic);
  }
  if (chief.precision != task.precision) return "the precision is another than the chief's";
  if (chief.seed != task.seed) {
    return fmt::format("the chief's seed is {}, this task's {}", chief.seed, task.seed);
  }
  if (task.replicas > 0 && chief.replicas != task.replicas) {
    return fmt::format("the chief's run has {} replicas, this task was given {}", chief.replicas,
                       task.replicas);
  }
  if (task.threads_per_replica > 0 && chief.threads_per_replica != task.threads_per_replica) {
    return fmt::format("the chief has {} threads a replica, this task was given {}",
                       chief.threads_per_replica, task.threads_per_replica);
  }
  return muster::difference(chief.others, task.others, is_server);
}

}  // namespace muster::internal
