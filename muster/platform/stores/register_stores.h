#pragma once

namespace muster {

/// Lets every path of this process also be one of a remote store: s3://BUCKET/KEY, gs://BUCKET/KEY,
/// hdfs://NAMENODE/PATH, and http:// and https:// for reading. Nothing is asked, opened or started
/// before such a path is used. Called once, at the beginning of main(); a program links
/// muster::stores for it. In a muster that was built without libcurl, the paths say what to
/// install.
void register_stores();

}  // namespace muster
