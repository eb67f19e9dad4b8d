import i18next, { type TFunction } from 'i18next'
import { en } from './en/index.ts'

export type Language = 'en' | 'zh'
export type Key = keyof typeof en

const storageKey = 'berth.language'

/** The language of the page. Texts that were read through `t` follow it. */
class Texts {
  language = $state<Language>('en')
  #translate: TFunction = i18next.t

  /** @param fallback language of the instance, for readers without a choice of their own */
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

  /** A text whose key contains a value of the server. */
  find(key: string, fallback: string): string {
    void this.language
    return key in en ? this.#translate(key) : fallback
  }

  async #show(language: Language): Promise<void> {
    if (language === 'zh' && !i18next.hasResourceBundle('zh', 'translation')) {
      const zh = await import('./zh/index.ts').catch(() => undefined)
      if (zh === undefined) return // the present texts are better than none
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
