#include <fmt/core.h>

#include "muster/distribution/head_codec_internal.h"
#include "muster/distribution/messages_internal.h"
#include "muster/engine/run_terms.h"

namespace muster::internal {
namespace {

void put(HeaderWriter& header, const RunTerms& terms) {
  header.put(terms.replicas);
  header.put_number(terms.threads_per_replica);
  header.put_number(terms.seed);
  header.put_number(static_cast<int>(terms.precision));
  header.put(terms.arithmetic);
  header.put(terms.last_step);
  header.put_number(terms.others.size());
  for (const RunTerm& term : terms.others) {
    header.put(term.name);
    header.put(term.value);
  }
}

RunTerms terms_of(HeaderReader& header) {
  RunTerms terms;
  terms.replicas = header.number();
  terms.threads_per_replica = static_cast<int>(header.number());
  terms.seed = static_cast<std::uint64_t>(header.number());
  terms.precision = static_cast<ComputeType>(header.number());
  terms.arithmetic = header.text();
  terms.last_step = header.number();
  terms.others.resize(header.count(16));
  for (RunTerm& term : terms.others) {
    term.name = header.text();
    term.value = header.text();
  }
  return terms;
}

void put(HeaderWriter& header, const ReplicaRange& range) {
  header.put(range.first);
  header.put(range.last);
}

// Makes sure that nothing follows: a longer message is another one.
template <typename Message>
Message whole(const HeaderReader& header, Message message) {
  if (!header.at_end()) throw DataLoss("a message is longer than its kind can be");
  return message;
}

}  // namespace

std::string encode(const RunTerms& message) {
  HeaderWriter header;
  put(header, message);
  return header.bytes();
}

RunTerms decode_terms(std::string_view bytes) {
  HeaderReader header(bytes);
  RunTerms terms = terms_of(header);
  return whole(header, std::move(terms));
}

std::string encode(const Join& message) {
  HeaderWriter header;
  put(header, message.terms);
  header.put(message.address);
  header.put_number(message.is_chief ? 1 : 0);
  header.put_number(message.is_server ? 1 : 0);
  return header.bytes();
}

Join decode_join(std::string_view bytes) {
  HeaderReader header(bytes);
  Join join;
  join.terms = terms_of(header);
  join.address = header.text();
  join.is_chief = header.number() != 0;
  join.is_server = header.number() != 0;
  return whole(header, std::move(join));
}

std::string encode(const Ready& message) {
  HeaderWriter header;
  header.put(message.generation);
  header.put(message.progress.step);
  header.put(message.progress.left_out);
  return header.bytes();
}

Ready decode_ready(std::string_view bytes) {
  HeaderReader header(bytes);
  Ready ready;
  ready.generation = header.number();
  ready.progress.step = header.number();
  ready.progress.left_out = header.number();
  return whole(header, ready);
}

std::string encode(const GenerationPlan& message) {
  HeaderWriter header;
  header.put(message.number);
  header.put_number(message.trainers);
  header.put_number(message.members.size());
  for (const GenerationMember& member : message.members) {
    header.put(member.task);
    header.put(member.address);
    put(header, member.replicas);
  }
  return header.bytes();
}

GenerationPlan decode_generation(std::string_view bytes) {
  HeaderReader header(bytes);
  GenerationPlan plan;
  plan.number = header.number();
  plan.trainers = static_cast<std::size_t>(header.number());
  plan.members.resize(header.count(32));
  for (GenerationMember& member : plan.members) {
    member.task = header.text();
    member.address = header.text();
    member.replicas.first = header.number();
    member.replicas.last = header.number();
  }
  return whole(header, std::move(plan));
}

std::string encode(const Source& message) {
  HeaderWriter header;
  header.put(message.generation);
  header.put_number(message.rank);
  header.put_number(message.to.size());
  for (const std::size_t rank : message.to) header.put_number(rank);
  header.put(message.progress.step);
  header.put(message.progress.left_out);
  header.put_number(message.go_back ? 1 : 0);
  return header.bytes();
}

Source decode_source(std::string_view bytes) {
  HeaderReader header(bytes);
  Source source;
  source.generation = header.number();
  source.rank = static_cast<std::size_t>(header.number());
  source.to.resize(header.count(8));
  for (std::size_t& rank : source.to) rank = static_cast<std::size_t>(header.number());
  source.progress.step = header.number();
  source.progress.left_out = header.number();
  source.go_back = header.number() != 0;
  return whole(header, std::move(source));
}

std::string encode_number(std::int64_t number) {
  HeaderWriter header;
  header.put(number);
  return header.bytes();
}

std::int64_t decode_number(std::string_view bytes) {
  HeaderReader header(bytes);
  const std::int64_t number = header.number();
  return whole(header, number);
}

std::string encode(const std::vector<std::string>& words) {
  HeaderWriter header;
  header.put_number(words.size());
  for (const std::string& word : words) header.put(word);
  return header.bytes();
}

std::vector<std::string> decode_words(std::string_view bytes) {
  HeaderReader header(bytes);
  std::vector<std::string> words(header.count(8));
  for (std::string& word : words) word = header.text();
  return whole(header, std::move(words));
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
