/** Widest screen in px on which notices use the whole width. It is the limit of svelte-sonner. */
const phone = matchMedia('(max-width: 600px)')
/** Distance in px between notices and the edge of the screen, and between notices and the page. */
const gap = 8
/** Height in px of the edge of each older notice that is visible below the newest one. At most two are visible. */
const edge = 14

/**
 * Attachment of the element with the notices. On phones, it reserves the top of the screen for them in the CSS variable
 * `--notices`, so that they cover no buttons.
 */
export function reserveRoom(element: HTMLElement): () => void {
  const reserve = (): void => {
    const height = phone.matches ? heightOf(element) : 0
    document.documentElement.style.setProperty('--notices', `${height}px`)
  }
  const observer = new MutationObserver(reserve)
  observer.observe(element, {
    subtree: true,
    childList: true,
    attributes: true,
    attributeFilter: ['data-front', 'data-removed'],
  })
  phone.addEventListener('change', reserve)
  return () => {
    observer.disconnect()
    phone.removeEventListener('change', reserve)
  }
}

function heightOf(element: HTMLElement): number {
  const shown = [...element.querySelectorAll<HTMLElement>('[data-sonner-toast][data-removed="false"]')]
  const front = shown.find((one) => one.dataset['front'] === 'true')
  return front ? gap + front.offsetHeight + edge * Math.min(shown.length - 1, 2) + gap : 0
}
