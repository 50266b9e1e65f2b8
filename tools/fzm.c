/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm: the command-line tool of h5z-fzm. Exit status: 0 ok, 1 failed, 2 usage. */
#include "cmd.h"

#include <stdio.h>
#include <string.h>

static const struct cmd *const commands[] = {&cmd_presets,    &cmd_stages, &cmd_filter_args, &cmd_compress,
                                             &cmd_decompress, &cmd_info,   &cmd_compare,     &cmd_bench};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

extern const char *cmd_running;
const char *cmd_running; /* name of the command, for messages */

/* The first line of a command's help without "usage: ". */
static void print_usage(FILE *to)
{
    fputs("usage: fzm COMMAND ...\n\n", to);
    for (int i = 0; i < N_COMMANDS; i++) {
        const char *const line = commands[i]->help + strlen("usage: ");
        fprintf(to, "  %.*s\n", (int)strcspn(line, "\n"), line);
    }
    fputs("\nfzm COMMAND --help says more; fzm --version prints the version.\n"
          "Exit status: 0 ok, 1 failed, 2 wrong usage.\n",
          to);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return CMD_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return CMD_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("fzm %s, stream format %d, HDF5 filter %d\n", FZM_VERSION_STRING, FZM_FORMAT_VERSION,
               FZM_FILTER_ID);
        return CMD_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(argv[1], commands[i]->name) == 0) {
            char self[64];
            cmd_running = commands[i]->name;
            snprintf(self, sizeof self, "fzm %s", cmd_running);
            argv[1] = self; /* getopt's messages start with it */
            const int code = commands[i]->run(argc - 1, argv + 1);
            if (fflush(stdout) != 0 && code == CMD_OK)
                return cmd_fail("cannot write to standard output");
            return code;
        }
    fprintf(stderr, "fzm: there is no command '%s'\n\n", argv[1]);
    print_usage(stderr);
    return CMD_USAGE;
}
