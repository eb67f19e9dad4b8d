export type Theme = 'system' | 'light' | 'dark'

const storageKey = 'berth.theme'
const dark = matchMedia('(prefers-color-scheme: dark)')

/** The light or dark theme, as chosen by the user or the operating system. */
class ThemeChoice {
  choice = $state<Theme>(stored())
  isDark = $state(false)

  start(): void {
    dark.addEventListener('change', () => this.#show())
    this.#show()
  }

  choose(theme: Theme): void {
    localStorage.setItem(storageKey, theme)
    this.choice = theme
    this.#show()
  }

  #show(): void {
    this.isDark = this.choice === 'dark' || (this.choice === 'system' && dark.matches)
    document.documentElement.dataset['theme'] = this.isDark ? 'dark' : 'light'
  }
}

function stored(): Theme {
  const value = localStorage.getItem(storageKey)
  return value === 'light' || value === 'dark' ? value : 'system'
}

export const theme = new ThemeChoice()
