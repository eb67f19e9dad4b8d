/** Finds the name of a page's entry script. The name contains a digest of the whole build. */
const entryScript = /<script[^>]+type="module"[^>]+src="([^"]+)"/
const reloadedFor = 'berth.reloaded-for'

/** Reloads the page if the gateway has a newer panel. @returns true if the page is being reloaded */
export async function reloadForNewVersion(): Promise<boolean> {
  const current = await readEntry().catch(() => undefined)
  const own = document.querySelector('script[type="module"]')?.getAttribute('src')
  if (current === undefined || current === own || sessionStorage.getItem(reloadedFor) === current) return false
  sessionStorage.setItem(reloadedFor, current)
  location.reload()
  return true
}

async function readEntry(): Promise<string | undefined> {
  const answer = await fetch('/', { cache: 'no-store' })
  return answer.ok ? entryScript.exec(await answer.text())?.[1] : undefined
}

/** Reloads the page if the gateway answers. If not, the page stays, because the browser would show its error page. */
export async function reloadIfReachable(): Promise<boolean> {
  const isReachable = await fetch('/', { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  )
  if (isReachable) location.reload()
  return isReachable
}
