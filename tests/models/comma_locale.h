/* comma_locale.h - puts a locale with a decimal comma in force, for tests that numbers do not follow the locale. */
#ifndef CPSIM_TESTS_MODELS_COMMA_LOCALE_H
#define CPSIM_TESTS_MODELS_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bool locale_has_comma(const char *name)
{
    char text[16];
    if (!setlocale(LC_ALL, name))
        return false;
    snprintf(text, sizeof text, "%.1f", 0.5);
    return strcmp(text, "0,5") == 0;
}

/* Takes an installed locale, or compiles one into a temporary folder. False, with a message, when neither works. The
 * caller goes back with setlocale(LC_ALL, "C"). */
static inline bool comma_locale_enter(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "ru_RU.UTF-8", "fr_FR.UTF-8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (locale_has_comma(names[i]))
            return true;
    }
    char folder[] = "/tmp/cpsim-locale-XXXXXX", command[256];
    bool entered = false;
    if (mkdtemp(folder)) {
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
        if (system(command) == 0) {
            setenv("LOCPATH", folder, 1);
            entered = locale_has_comma("de_DE.UTF-8");
            unsetenv("LOCPATH");
        }
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (system(command) != 0)
            printf("%s is left over\n", folder);
    }
    if (!entered) {
        setlocale(LC_ALL, "C");
        printf("no locale with a decimal comma is installed and localedef cannot make one: skipped\n");
    }
    return entered;
}

#endif
