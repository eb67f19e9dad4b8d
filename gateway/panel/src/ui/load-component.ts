import LoadFailed from './LoadFailed.svelte'

/** Where the entry script of a page is named: it has the digest of the whole build. */
const entryScript = /<script[^>]+type="module"[^>]+src="([^"]+)"/
const reloadedFor = 'berth.reloaded-for'

interface Module {
  readonly default: unknown
}

/**
 * Loads the script of a page or of a part of it. If it cannot be loaded because the gateway has a newer panel by now,
 * the page is reloaded once; otherwise its place says so and offers to try again.
 */
export async function loadComponent<M extends Module>(load: () => Promise<M>): Promise<M> {
  try {
    return await load()
  } catch {
    if (await reloadForNewVersion()) return new Promise(() => undefined)
    return { default: LoadFailed } as unknown as M
  }
}

/** @returns whether the page is being reloaded */
async function reloadForNewVersion(): Promise<boolean> {
  const current = await readEntry().catch(() => undefined)
  const own = document.querySelector('script[type="module"]')?.getAttribute('src')
  if (current === undefined || current === own || sessionStorage.getItem(reloadedFor) === current)
    return false
  sessionStorage.setItem(reloadedFor, current)
  location.reload()
  return true
}

async function readEntry(): Promise<string | undefined> {
  const answer = await fetch('/', { cache: 'no-store' })
  return answer.ok ? entryScript.exec(await answer.text())?.[1] : undefined
}

/** Reloads the page if the gateway answers: a browser would replace it with its own error page otherwise. */
export async function reloadIfReachable(): Promise<boolean> {
  const isReachable = await fetch('/', { cache: 'no-store' }).then(
    ({ ok }) => ok,
    () => false,
  )
  if (isReachable) location.reload()
  return isReachable
}
