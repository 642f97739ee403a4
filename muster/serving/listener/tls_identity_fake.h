#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "muster/serving/listener/tls_options.h"

/// For tests.
namespace muster::serving {

template <typename Write>
std::string pem_of(const Write& write) {
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(::BIO_new(::BIO_s_mem()), ::BIO_free);
  write(bio.get());
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return {text, static_cast<std::size_t>(size)};
}

/// A key and a certificate that it has signed itself.
struct TlsIdentity {
  std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)> key{EVP_EC_gen("P-256"), ::EVP_PKEY_free};
  std::unique_ptr<X509, void (*)(X509*)> certificate{::X509_new(), ::X509_free};

  TlsIdentity() {
    X509* const made = certificate.get();
    ::X509_set_version(made, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(made), -3600);
    ::X509_gmtime_adj(::X509_getm_notAfter(made), 3600);
    ::X509_set_pubkey(made, key.get());
    X509_NAME* const name = ::X509_get_subject_name(made);
    ::X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("h"), -1, -1, 0);
    ::X509_set_issuer_name(made, name);
    ::X509_sign(made, key.get(), ::EVP_sha256());
  }
  /// To serve with.
  TlsOptions options() const { return {.certificate = certificate_text(), .key = key_text()}; }
  std::string certificate_text() const {
    return pem_of([&](BIO* bio) { ::PEM_write_bio_X509(bio, certificate.get()); });
  }
  std::string key_text() const {
    return pem_of([&](BIO* bio) {
      ::PEM_write_bio_PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
  }
};

}  // namespace muster::serving
