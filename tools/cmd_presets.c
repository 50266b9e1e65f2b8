/* SPDX-License-Identifier: BSD-3-Clause */
/* fzm presets, fzm stages: the tables that the code itself uses. */
#include "cmd.h"
#include "stages.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static int run_presets(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool json = false, done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_presets, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        json = true;
    }
    if (optind < argc)
        return cmd_usage_error("takes no argument, not '%s'", argv[optind]);
    const fzm_preset_info *p;
    for (size_t i = 0; (p = fzm_preset(i)) != NULL; i++) {
        if (!json) {
            printf("%3d  %-12s %s\n", p->number, p->name, p->help);
            continue;
        }
        printf("%s{\"number\": %d, \"name\": ", i ? ",\n " : "[", p->number);
        cmd_print_json_string(p->name);
        fputs(", \"help\": ", stdout);
        cmd_print_json_string(p->help);
        printf(", \"pipeline\": %s}", p->json && *p->json ? p->json : "null");
    }
    if (json)
        puts("]");
    return CMD_OK;
}

const struct cmd cmd_presets = {
    "presets",
    "usage: fzm presets [--json]\n\n"
    "Prints the presets: number, name, purpose. With --json their pipelines too.\n",
    run_presets};

/* ---- stages ---- */

static void print_param_range(const struct fzm_param *p)
{
    if (p->type == FZM_P_ENUM)
        for (int i = 0; p->names && p->names[i]; i++)
            printf("%s%s", i ? ", " : "", p->names[i]);
    else if (p->type == FZM_P_BOOL)
        fputs("false, true", stdout);
    else
        printf("%.17g..%.17g", p->min, p->max);
}

static void print_param_default(const struct fzm_param *p)
{
    if (p->type == FZM_P_ENUM)
        fputs(p->names[(unsigned)p->def], stdout);
    else if (p->type == FZM_P_BOOL)
        fputs(p->def != 0 ? "true" : "false", stdout);
    else
        printf("%.17g", p->def);
}

static const char *param_remark(const struct fzm_param *p)
{
    if (p->flags & FZM_PF_RUNTIME)
        return " (set by the encoder)";
    return p->flags & FZM_PF_BOUND ? " (default: the pipeline's bound)" : "";
}

static const char *stage_kind(const struct fzm_stage *s)
{
    if (!(s->flags & FZM_STAGE_LOSSY))
        return "lossless";
    return s->flags & FZM_STAGE_BOUND_CHECKED ? "lossy, every element checked against the bound" : "lossy";
}

static void print_markdown_ports(const char *title, const struct fzm_port *ports, unsigned n)
{
    printf("| %s | types | |\n|---|---|---|\n", title);
    for (unsigned i = 0; i < n; i++)
        printf("| `%s` | %s |%s%s%s |\n", ports[i].name, ports[i].dtypes,
               ports[i].flags & FZM_PORT_OPTIONAL ? " optional" : "",
               ports[i].flags & FZM_PORT_HINT ? " hint: steers the encoder only" : "",
               ports[i].flags & FZM_PORT_VARIABLE ? " length depends on the data" : "");
    putchar('\n');
}

static void print_markdown(void)
{
    puts("# Stages\n\n"
         "Printed by `fzm stages --markdown` from the stage table; a test compares.\n"
         "A pipeline names them by \"type\"; parameters are JSON keys of the stage.\n\n"
         "| stage | id | version | |\n|---|---|---|---|");
    for (unsigned i = 0; i < fzm_n_stages; i++) {
        printf("| [%s](#", fzm_stages[i]->name);
        for (const char *c = fzm_stages[i]->name; *c; c++) /* anchors are lower case */
            putchar(tolower((unsigned char)*c));
        printf(") | %u | %u | %s |\n", fzm_stages[i]->id, fzm_stages[i]->version, fzm_stages[i]->help);
    }
    for (unsigned i = 0; i < fzm_n_stages; i++) {
        const struct fzm_stage *const s = fzm_stages[i];
        printf("\n## %s\n\n%s. Id %u, layout version %u, %s.\n\n", s->name, s->help, s->id, s->version,
               stage_kind(s));
        print_markdown_ports("input", s->in, s->n_in);
        print_markdown_ports("output", s->out, s->n_out);
        if (s->n_params)
            puts("| parameter | values | default | |\n|---|---|---|---|");
        for (unsigned k = 0; k < s->n_params; k++) {
            printf("| `%s` | ", s->params[k].key);
            print_param_range(&s->params[k]);
            fputs(" | ", stdout);
            print_param_default(&s->params[k]);
            printf(" | %s%s |\n", s->params[k].help, param_remark(&s->params[k]));
        }
        if (s->n_params)
            putchar('\n');
        if (s->reference)
            printf("Reference: %s\n", s->reference);
    }
}

static void print_json_ports(const char *key, const struct fzm_port *ports, unsigned n)
{
    printf("\"%s\": [", key);
    for (unsigned i = 0; i < n; i++) {
        printf("%s{\"name\": ", i ? ", " : "");
        cmd_print_json_string(ports[i].name);
        fputs(", \"types\": ", stdout);
        cmd_print_json_string(ports[i].dtypes);
        printf(", \"optional\": %s, \"hint\": %s, \"variable\": %s}",
               ports[i].flags & FZM_PORT_OPTIONAL ? "true" : "false",
               ports[i].flags & FZM_PORT_HINT ? "true" : "false",
               ports[i].flags & FZM_PORT_VARIABLE ? "true" : "false");
    }
    fputs("], ", stdout);
}

static void print_json_param(const struct fzm_param *p)
{
    static const char *const types[] = {"u32", "f64", "bool", "enum"};
    fputs("{\"key\": ", stdout);
    cmd_print_json_string(p->key);
    printf(", \"type\": \"%s\", \"help\": ", types[p->type]);
    cmd_print_json_string(p->help);
    printf(", \"min\": %.17g, \"max\": %.17g, \"default\": ", p->min, p->max);
    if (p->type == FZM_P_ENUM) {
        cmd_print_json_string(p->names[(unsigned)p->def]);
        fputs(", \"names\": [", stdout);
        for (int i = 0; p->names[i]; i++)
            printf("%s\"%s\"", i ? ", " : "", p->names[i]);
        putchar(']');
    } else
        print_param_default(p);
    printf(", \"runtime\": %s, \"bound\": %s}", p->flags & FZM_PF_RUNTIME ? "true" : "false",
           p->flags & FZM_PF_BOUND ? "true" : "false");
}

static void print_json(void)
{
    for (unsigned i = 0; i < fzm_n_stages; i++) {
        const struct fzm_stage *const s = fzm_stages[i];
        printf("%s{\"name\": \"%s\", \"id\": %u, \"version\": %u, \"help\": ", i ? ",\n " : "[", s->name,
               s->id, s->version);
        cmd_print_json_string(s->help);
        fputs(", \"reference\": ", stdout);
        cmd_print_json_string(s->reference ? s->reference : "");
        printf(", \"lossy\": %s, ", s->flags & FZM_STAGE_LOSSY ? "true" : "false");
        print_json_ports("inputs", s->in, s->n_in);
        print_json_ports("outputs", s->out, s->n_out);
        fputs("\"params\": [", stdout);
        for (unsigned k = 0; k < s->n_params; k++) {
            fputs(k ? ", " : "", stdout);
            print_json_param(&s->params[k]);
        }
        fputs("]}", stdout);
    }
    puts("]");
}

static int run_stages(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"markdown", no_argument, NULL, 'm'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    int form = 0;
    bool done;
    for (int o; (o = cmd_next_option(argc, argv, options, &cmd_stages, &done)) != -1;) {
        if (done || o == '?')
            return done ? CMD_OK : CMD_USAGE;
        if (form && form != o)
            return cmd_usage_error("--json and --markdown exclude each other");
        form = o;
    }
    if (optind < argc)
        return cmd_usage_error("takes no argument, not '%s'", argv[optind]);
    if (form == 'm')
        print_markdown();
    else if (form == 'j')
        print_json();
    else
        for (unsigned i = 0; i < fzm_n_stages; i++)
            printf("%3u  %-16s %s\n", fzm_stages[i]->id, fzm_stages[i]->name, fzm_stages[i]->help);
    return CMD_OK;
}

const struct cmd cmd_stages = {
    "stages",
    "usage: fzm stages [--json|--markdown]\n\n"
    "Prints the stages that pipelines are made of. --json and --markdown give ports and parameters too;\n"
    "--markdown is docs/stages.md.\n",
    run_stages};
