import type { Logger } from 'pino'
import { StoredDocument } from './store/document.js'
import type { Store } from './store/store.js'

export const languages = ['en', 'zh'] as const
export type Language = (typeof languages)[number]

/** Settings that browsers meet, the same at every gateway. To be made before `store.start()`. */
export class PanelSettings {
  /** Of whoever has chosen none. */
  readonly language: StoredDocument<Language>
  /** Whose pages may open consoles, beside this server's own: `https://panel.example`, canonical. */
  readonly websshOrigins: StoredDocument<readonly string[]>

  constructor(store: Store, log: Logger) {
    this.language = new StoredDocument<Language>({ store, name: 'language', initial: 'en', log })
    this.websshOrigins = new StoredDocument<readonly string[]>({
      ...{ store, name: 'webssh-origins', initial: [], log },
    })
  }
}
