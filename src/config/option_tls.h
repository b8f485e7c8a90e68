/* option_tls: the rows of the option table about TLS, which several listeners have. Only for option_table.c. */
#pragma once

#include "config/option.h"

static const char *const tls_client_auth_choices[] = {
    [CONFIG_CLIENT_AUTH_AUTO] = "auto",
    [CONFIG_CLIENT_AUTH_NONE] = "none",
    [CONFIG_CLIENT_AUTH_OPTIONAL] = "optional",
    [CONFIG_CLIENT_AUTH_REQUIRED] = "required",
    NULL,
};

static const char *const tls_version_choices[] = {[CONFIG_TLS_1_2] = "1.2", [CONFIG_TLS_1_3] = "1.3", NULL};

enum { TLS_FILES_MAX = 64, TLS_PATH_MAX_BYTES = 4000 };

/* Files; their path counts from the folder of the configuration's file. */
#define TLS_FILES(row_path, row_offset, row_help)                                                                              \
    {                                                                                                                          \
        .path = row_path, .type = OPTION_STRINGS, .flags = OPTION_RELOADABLE, .min = 0, .max = TLS_FILES_MAX,                  \
        .offset = row_offset, .help = row_help                                                                                 \
    }

/* `section` with a dot behind it is the path before, `at` the offset of a struct config_tls. */
#define TLS_OPTIONS(section, at)                                                                                               \
    {.path = section,                                                                                                          \
     .type = OPTION_SECTION,                                                                                                   \
     .flags = OPTION_RELOADABLE,                                                                                               \
     .help = "TLS of this address. Files are PEM; a relative path counts from the folder of this file. A reload (SIGHUP, or "  \
             "when one of the files has changed) takes them over for new connections."},                                       \
        TLS_FILES(section ".cert", (at) + offsetof(struct config_tls, cert),                                                   \
                  "The certificate with its chain, or a list of several: the one whose names match what the client asks for "  \
                  "(SNI) is shown, else the first. An RSA and an ECDSA certificate may have the same names."),                 \
        TLS_FILES(section ".key", (at) + offsetof(struct config_tls, key),                                                     \
                  "The key of the certificate, without a password, or a list as long as that of cert. Without it the key is "  \
                  "in the file of the certificate."),                                                                          \
        TLS_FILES(section ".client_ca", (at) + offsetof(struct config_tls, client_ca),                                         \
                  "Whose certificates of clients are accepted. What is in these files is trusted, be it a root or not."),      \
        TLS_FILES(section ".crl", (at) + offsetof(struct config_tls, crl),                                                     \
                  "Revocation lists. With any, the CA that has issued a client's certificate must have one that is not "       \
                  "over; CAs above it may have one."),                                                                         \
        {.path = section ".client_auth",                                                                                       \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "auto",                                                                                                    \
         .choices = tls_client_auth_choices,                                                                                   \
         .offset = (at) + offsetof(struct config_tls, client_auth),                                                            \
         .help = "Whether clients show a certificate: none asks for none, optional checks one that is given, required "        \
                 "refuses clients without. auto is optional with a client_ca and none without. optional and required "         \
                 "without a client_ca leave it to the registry whom to trust."},                                               \
        {.path = section ".psk",                                                                                               \
         .type = OPTION_BOOL,                                                                                                  \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "false",                                                                                                   \
         .offset = (at) + offsetof(struct config_tls, has_psk),                                                                \
         .help = "Clients may log in by a pre-shared key instead: the identity is AUTH-ID@TENANT, the key that of the "        \
                 "device's credentials of type psk in the registry. A certificate is not needed then."},                       \
        {.path = section ".min_version",                                                                                       \
         .type = OPTION_CHOICE,                                                                                                \
         .flags = OPTION_RELOADABLE,                                                                                           \
         .initial = "1.2",                                                                                                     \
         .choices = tls_version_choices,                                                                                       \
         .offset = (at) + offsetof(struct config_tls, min_version),                                                            \
         .help = "The oldest version of TLS."},                                                                                \
    {                                                                                                                          \
        .path = section ".ticket_keys", .type = OPTION_TEXT, .flags = OPTION_RELOADABLE, .min = 0, .max = TLS_PATH_MAX_BYTES,  \
        .offset = (at) + offsetof(struct config_tls, ticket_keys),                                                             \
        .help = "A file with the keys of session tickets, one in each line of at least 32 characters: the first seals, all "   \
                "are accepted. Instances with the same file resume each other's sessions. Without it each process makes "      \
                "its own and changes them daily."                                                                              \
    }
