import type { Logger } from 'pino'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'

export const languages = ['en', 'zh'] as const
export type Language = (typeof languages)[number]

/** Settings for browsers, the same at every gateway. Create it before `store.start()`. */
export class PanelSettings {
  /** Language of users who have chosen none. */
  readonly language: StoredDocument<Language>
  /** Origins whose pages may open consoles in addition to this server's own: `https://panel.example`, canonical. */
  readonly websshOrigins: StoredDocument<readonly string[]>

  /** Public URL of the panel, for example `https://panel.example`, canonical; "": not set, see `public-url.ts`. */
  readonly publicUrl: StoredDocument<string>

  constructor(store: Store, log: Logger) {
    this.language = new StoredDocument<Language>({ store, name: 'language', initial: 'en', log })
    this.publicUrl = new StoredDocument<string>({ store, name: 'public-url', initial: '', log })
    this.websshOrigins = new StoredDocument<readonly string[]>({ store, name: 'webssh-origins', initial: [], log })
  }
}
