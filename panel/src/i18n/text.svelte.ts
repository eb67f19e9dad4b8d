import i18next, { type TFunction } from 'i18next'
import { en } from './en/index.ts'

export type Language = 'en' | 'zh'
export type Key = keyof typeof en

const storageKey = 'berth.language'

/** The language of the page. When it changes, pages show the texts of `t` in the new language. */
class Texts {
  language = $state<Language>('en')
  #translate: TFunction = i18next.t

  /** @param fallback default language of the instance, used until the user chooses a language */
  async start(fallback?: Language): Promise<void> {
    const options = {
      keySeparator: false,
      nsSeparator: false,
      interpolation: { escapeValue: false },
    } as const
    await i18next.init({ ...options, lng: 'en', fallbackLng: 'en', resources: { en: { translation: en } } })
    await this.#show(chosen() ?? fallback ?? ofBrowser())
  }

  async choose(language: Language): Promise<void> {
    localStorage.setItem(storageKey, language)
    await this.#show(language)
  }

  t = (key: Key, values: Readonly<Record<string, string | number>> = {}): string => {
    void this.language
    return this.#translate(key, values)
  }

  /** Returns the text for a key with a value from the server, such as `task.create`. Unknown keys give `fallback`. */
  find(key: string, fallback: string): string {
    void this.language
    return key in en ? this.#translate(key) : fallback
  }

  async #show(language: Language): Promise<void> {
    if (language === 'zh' && !i18next.hasResourceBundle('zh', 'translation')) {
      const zh = await import('./zh/index.ts').catch(() => undefined)
      if (zh === undefined) return // the current language stays if the texts cannot be loaded
      i18next.addResourceBundle('zh', 'translation', zh.zh)
    }
    this.#translate = await i18next.changeLanguage(language)
    this.language = language
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en'
  }
}

function chosen(): Language | undefined {
  const stored = localStorage.getItem(storageKey)
  return stored === 'en' || stored === 'zh' ? stored : undefined
}

function ofBrowser(): Language {
  return navigator.language.startsWith('zh') ? 'zh' : 'en'
}

export const texts = new Texts()
export const t = texts.t
