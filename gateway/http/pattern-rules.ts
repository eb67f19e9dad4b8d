import { usernamePattern, usernameRule } from '../accounts/account-record.js'
import {
  descriptionPattern,
  guestNamePattern,
  guestNameRule,
  templateIdPattern,
  timeOfDayPattern,
  uuidPattern,
} from '../../shared/guest-rules.js'
import { imageNamePattern, imageUrlPattern, imageWordPattern, sha256Pattern } from '../../shared/image-rules.js'
import { notePattern, noteRule, tagPattern, tagRule } from '../../shared/label-rules.js'
import {
  hostLabelPattern,
  hostLabelRule,
  placementNamePattern,
  placementNameRule,
} from '../../shared/placement-rules.js'
import { suspensionTextPattern } from '../../shared/suspension-rules.js'

/** Pattern of a template's id, or of an empty text. */
export const optionalTemplateIdPattern = `${templateIdPattern}|^$`
/** Pattern of names of API keys and SSH keys: at least one visible character, no control characters or line breaks. */
export const keyNamePattern = '^(?=.*\\S)[^\\p{C}\\p{Zl}\\p{Zp}]*$'
/** Pattern of names of webhooks and providers. These names can be empty. */
export const printableNamePattern = '^[^\\p{C}\\p{Zl}\\p{Zp}]*$'
/** Pattern of names of network interfaces. Empty: the default interface. */
export const interfacePattern = '^[^\\s/\\u0000-\\u001f]{0,15}$'
export const gatewayNamePattern = '^[A-Za-z0-9][A-Za-z0-9-]{0,49}$'
export const sessionIdPattern = '^[0-9a-f]{32}$'
export const base64UrlPattern = '^[A-Za-z0-9_-]*$'

const templateId = 'must be an id of lower-case letters, digits, "." and "-"'
const printableLine = 'must be printable characters on one line'

/** Descriptions of the patterns in request schemas, for error messages. */
const rules: Readonly<Record<string, string>> = {
  [usernamePattern]: usernameRule,
  [guestNamePattern]: guestNameRule,
  [templateIdPattern]: templateId,
  [optionalTemplateIdPattern]: templateId,
  [uuidPattern]: 'must be a uuid in lower case',
  [timeOfDayPattern]: 'must be a time of day in the form HH:MM',
  [descriptionPattern]: `${printableLine}, at most 200`,
  [suspensionTextPattern]: `${printableLine}, at most 500`,
  [tagPattern]: tagRule,
  [placementNamePattern]: placementNameRule,
  [hostLabelPattern]: hostLabelRule,
  [notePattern]: noteRule,
  [imageNamePattern]: `${printableLine}, 1 to 100`,
  [imageWordPattern]: 'must be 1 to 64 letters, digits, ".", "_", "+" or "-", starting with a letter or digit',
  [imageUrlPattern]: 'must be an http or https URL, or upload:NAME',
  [sha256Pattern]: 'must be 64 hexadecimal digits',
  [keyNamePattern]: `${printableLine}, with at least one visible character`,
  [printableNamePattern]: printableLine,
  [interfacePattern]: 'must be the name of an interface, at most 15 characters',
  [gatewayNamePattern]: 'must be 1 to 50 letters, digits and "-", starting with a letter or digit',
  [sessionIdPattern]: 'must be 32 hexadecimal digits in lower case',
  [base64UrlPattern]: 'must be base64url text without padding',
}

/** @returns undefined if no request schema contains the pattern */
export function ruleOfPattern(pattern: string): string | undefined {
  return rules[pattern]
}
