import i18next, { type TFunction } from 'i18next'
import { withCustomerWords } from './customer-words.ts'
import { en } from './en/index.ts'

export type Language = 'en' | 'zh'
export type Key = keyof typeof en

const storageKey = 'berth.language'

/** The texts of the page. When the language or the reader changes, pages show the new texts of `t`. */
class Texts {
  language = $state<Language>('en')
  #isForCustomer = $state(false)
  #translate: TFunction = i18next.t
  #agentText = (text: string): string => text

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

  /** Uses the words of customers or those of providers. */
  setReader(isCustomer: boolean): void {
    if (this.#isForCustomer === isCustomer) return
    i18next.addResourceBundle('en', 'translation', isCustomer ? withCustomerWords(en) : en, true, true)
    this.#isForCustomer = isCustomer
  }

  t = (key: Key, values: Readonly<Record<string, string | number>> = {}): string => {
    this.#follow()
    return this.#translate(key, values)
  }

  /** Returns the text for a key with a value from the server, such as `task.create`. Unknown keys give `fallback`. */
  find(key: string, fallback: string, values: Readonly<Record<string, string | number>> = {}): string {
    this.#follow()
    return key in en ? this.#translate(key, values) : fallback
  }

  /** Returns a warning of a host, or the reason for the status of a guest, in the language of the page if possible. */
  ofAgent(text: string): string {
    this.#follow()
    return this.language === 'zh' ? this.#agentText(text) : text
  }

  /** Lets the calling component update when the texts change. */
  #follow(): void {
    void this.language
    void this.#isForCustomer
  }

  async #show(language: Language): Promise<void> {
    if (language === 'zh' && !i18next.hasResourceBundle('zh', 'translation')) {
      const zh = await import('./zh/index.ts').catch(() => undefined)
      if (zh === undefined) return // the current language stays if the texts cannot be loaded
      i18next.addResourceBundle('zh', 'translation', zh.zh)
      this.#agentText = zh.agentText
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
