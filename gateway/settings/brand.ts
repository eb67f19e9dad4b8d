import { hash } from 'node:crypto'
import type { StoredDocument } from '../store/document.js'

/** Name of the panel until an administrator sets another name. */
const defaultName = 'Berth'

export interface BrandDocument {
  /** Name of the provider. "": `defaultName`. */
  readonly name: string
  /** A PNG file in base64, see `parseLogo`. "": the logo of Berth. */
  readonly logo: string
}

interface ShownLogo {
  readonly bytes: Buffer
  /** Path of the page that serves the logo. It contains a digest of the logo. */
  readonly path: string
}

/** Name and logo that the panel shows instead of those of Berth. */
export class Brand {
  #logo: ShownLogo | undefined

  constructor(readonly document: StoredDocument<BrandDocument>) {
    document.onChange(({ logo }) => (this.#logo = logo === '' ? undefined : showLogo(logo)))
  }

  /** Name of the provider. Until the store has been reached, this is the name of Berth. */
  get name(): string {
    return this.document.value?.name || defaultName
  }

  /** The logo. `undefined`: the panel shows the logo of Berth. */
  get logo(): ShownLogo | undefined {
    return this.#logo
  }
}

function showLogo(base64: string): ShownLogo {
  const bytes = Buffer.from(base64, 'base64')
  return { bytes, path: `/brand/logo-${hash('sha256', bytes, 'hex').slice(0, 16)}.png` }
}
