import type { Logger } from 'pino'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import { Brand, type BrandDocument } from './brand.js'

export const languages = ['en', 'zh'] as const
export type Language = (typeof languages)[number]

/** Settings for browsers and for deletions, shared by all gateways. Create the object before `store.start()`. */
export class PanelSettings {
  /** Language for users who made no choice of their own. */
  readonly language: StoredDocument<Language>
  /** Canonical origins of other sites, like `https://panel.example`, whose pages may open consoles. */
  readonly websshOrigins: StoredDocument<readonly string[]>

  /** Canonical public URL of the panel, like `https://panel.example`. "": not set, see `public-url.ts`. */
  readonly publicUrl: StoredDocument<string>

  readonly brand: Brand

  /** Time in hours for which a deletion of a container can be undone. 0: containers are removed immediately. */
  readonly undoDeleteHours: StoredDocument<number>

  constructor(store: Store, log: Logger) {
    this.language = new StoredDocument<Language>({ store, name: 'language', initial: 'en', log })
    this.undoDeleteHours = new StoredDocument<number>({ store, name: 'undo-delete-hours', initial: 0, log })
    this.publicUrl = new StoredDocument<string>({ store, name: 'public-url', initial: '', log })
    const noBrand = { name: '', logo: '' }
    this.brand = new Brand(new StoredDocument<BrandDocument>({ store, name: 'branding', initial: noBrand, log }))
    this.websshOrigins = new StoredDocument<readonly string[]>({ store, name: 'webssh-origins', initial: [], log })
  }
}
