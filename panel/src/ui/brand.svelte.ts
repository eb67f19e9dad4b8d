import icon from '../icon.svg'

/** Name and logo of the provider. The gateway writes them into the page, so that they are known from the beginning. */
class Brand {
  name = $state(metaOf('application-name') || 'Berth')
  /** Address of the provider's logo. Empty: the panel shows the logo of Berth. */
  #logo = $state(metaOf('logo'))

  get logo(): string {
    return this.#logo || icon
  }

  /** Shows another brand at once, after the user has changed it. An empty value is the brand of Berth. */
  set(name: string, logo: string): void {
    this.name = name || 'Berth'
    this.#logo = logo
    document.querySelector('link[rel=icon]')?.replaceWith(iconLink(this.logo))
  }
}

function metaOf(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? ''
}

function iconLink(href: string): HTMLLinkElement {
  return Object.assign(document.createElement('link'), { rel: 'icon', href })
}

export const brand = new Brand()
