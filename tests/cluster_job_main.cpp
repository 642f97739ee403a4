#include "muster/base/program.h"
#include "tests/cluster_job.h"

int main(int argc, char** argv) {
  return muster::run_main(argc, argv, muster::testing::run_cluster_job);
}
